"""Handlers for APIs that create, delete, describe or alter topics and configs, one file per API.

Besides the admin APIs these are the APIs by which brokers create topics automatically: Metadata,
FindCoordinator and StreamsGroupHeartbeat.
"""
