"""Learning from what happens: records on disk, and the observers that learn from them."""

from cnp_router.online.observers import Observer, RouterObserver
from cnp_router.online.store import ONLINE_FILE, OnlineStore, Receipt

__all__ = ["ONLINE_FILE", "Observer", "OnlineStore", "Receipt", "RouterObserver"]
