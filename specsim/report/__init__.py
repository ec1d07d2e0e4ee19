"""Rows to tables, CSV and JSON, and the words that go with them."""
