"""Data to start with: the bundled sample, and readers of public data sets' own layouts.

`load_sample` needs no network and no file. The readers take a local clone; nothing is
downloaded.
"""

from cnp_router.datasets.bundled import load_sample
from cnp_router.datasets.dataset import Dataset, ReadReport, Tally
from cnp_router.datasets.mtfm import read_mtfm
from cnp_router.datasets.programmableweb import read_programmableweb

__all__ = [
    "Dataset",
    "ReadReport",
    "Tally",
    "load_sample",
    "read_mtfm",
    "read_programmableweb",
]
