"""Records and their columns in frames, and files and tables as frames."""
