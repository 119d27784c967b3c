"""Rows and columns of frames, and files and tables as frames."""
