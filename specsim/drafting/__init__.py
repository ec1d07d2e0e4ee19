"""Drafters: each a list of passes, the memory it takes, and its proposed lengths."""
