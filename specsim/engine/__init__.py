"""The reference engine from questions to answers and files: what the API and the command line share."""
