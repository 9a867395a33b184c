"""Learning from what happens: records on disk, and the observers that learn from them."""

from cnp_router.online.observers import Observer, RouterObserver
from cnp_router.online.reputation import Reputation
from cnp_router.online.store import OnlineStore, Receipt

__all__ = ["Observer", "OnlineStore", "Receipt", "Reputation", "RouterObserver"]
