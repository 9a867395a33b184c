"""The gateway: one door to all sources, for any agent."""
