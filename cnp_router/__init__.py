"""Learned routing for the Contract Net."""
