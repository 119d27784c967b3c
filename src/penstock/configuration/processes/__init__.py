"""Processes that run code of users, and what they leave behind."""
