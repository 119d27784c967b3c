"""One file for each API that is more than narrowed or readdressed."""
