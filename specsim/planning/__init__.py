"""Joins cost and acceptance: one draft-and-verify round, the best draft length, grids and break-even points."""
