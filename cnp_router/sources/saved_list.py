"""A saved answer of an MCP server to ``tools/list``: tools to make a catalog of, not to call."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, NoReturn

from cnp_router.catalog import Api
from cnp_router.exceptions import DataFileError
from cnp_router.files import read_json
from cnp_router.records import shown
from cnp_router.sources.configuration import SourceRef
from cnp_router.sources.source import Call, Source, check_source_name

__all__ = ["SavedList"]
