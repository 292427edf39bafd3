"""What commands do, under the names of the commands."""
