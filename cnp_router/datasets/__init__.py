"""Data to start with: what is bundled, and readers of public data sets' own layouts.

`load_sample` and `load_out_of_scope` need no network and no file. The readers take a local clone;
nothing is downloaded.
"""

from cnp_router.datasets.bundled import load_out_of_scope, load_sample
from cnp_router.datasets.dataset import Dataset, ReadReport, Tally
from cnp_router.datasets.mtfm import read_mtfm
from cnp_router.datasets.out_of_scope import OutOfScope, read_out_of_scope, served_by_none
from cnp_router.datasets.programmableweb import read_programmableweb

__all__ = [
    "Dataset",
    "OutOfScope",
    "ReadReport",
    "Tally",
    "load_out_of_scope",
    "load_sample",
    "read_mtfm",
    "read_out_of_scope",
    "read_programmableweb",
    "served_by_none",
]
