"""A command as a process: signals, systemd, file descriptors, logs."""
