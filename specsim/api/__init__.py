"""The commands as Python functions under the same names, one module for each kind of question."""
