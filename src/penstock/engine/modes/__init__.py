"""What happens to a refused record by its mode, and the headers of all dead letters.

`diverting` judges by mode, `marks` and `quarantine` are the modes that store a refused record;
`dead_letters` writes and reads the headers of dead letters, also those of jobs.
"""
