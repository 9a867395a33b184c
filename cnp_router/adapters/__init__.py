"""Adapters to frameworks of agents: each is a module of its own, which imports its framework.

People write ``from cnp_router.adapters.langchain import ...``; nothing is imported before that.
"""
