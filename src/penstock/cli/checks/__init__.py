"""The parts of `penstock check`."""
