"""What policies a topic might have, judging by a sample of its records: `penstock suggest`."""
