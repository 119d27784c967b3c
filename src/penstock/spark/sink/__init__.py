"""Where frames are written: topics, folders and tables."""
