"""How commands print lines and screens."""
