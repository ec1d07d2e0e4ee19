"""What a user can describe: frozen records, each field with its kind and unit."""
