"""Jobs one after the other, from a YAML file."""
