"""`model_names`: what a server that speaks OpenAI's wire format can be asked as."""

from __future__ import annotations

import json

from cnp_router.llm.openai_server import OpenAIServer
from cnp_router.printing import printable

__all__ = ["model_names"]

_MOST = 1_000


async def model_names(
    base_url: str, *, api_key: str | None = None, timeout: float = 30.0
) -> tuple[str, ...]:
    """Return the names of a server's models, as ``GET /models`` lists them.

    Parameters
    ----------
    base_url : str
        Of the server, such as ``"http://localhost:11434/v1"``.
    api_key : str, optional
        By default ``OPENAI_API_KEY`` from the environment.
    timeout : float, seconds, default=30.0

    Raises
    ------
    InputError
        If that is not a URL.
    LanguageModelError
        If the server cannot be reached, or lists none; the subclass says whose fault it is.

    Examples
    --------
    >>> import asyncio
    >>> from cnp_router.llm import model_requests_allowed
    >>> with model_requests_allowed("none"):
    ...     asyncio.run(model_names("http://localhost:11434/v1"))
    Traceback (most recent call last):
        ...
    cnp_router.exceptions.ChatDisallowedError: model 'its list of models' at \
http://localhost:11434/v1/models: model requests are allowed to 'none' only (see \
cnp_router.llm.model_requests_allowed and CNP_ROUTER_MODEL_REQUESTS)
    """
    server = _ModelList(
        "its list of models",
        base_url=base_url,
        api_key=api_key,
        timeout=timeout,
        max_retries=1,
        max_concurrency=1,
        max_bytes=2_097_152,
    )
    try:
        return await server.names()
    finally:
        await server.aclose()


class _ModelList(OpenAIServer):
    async def names(self) -> tuple[str, ...]:
        body, _ = await self._timed(
            lambda session: self._text(session.client.models.with_raw_response.list, {}),
            self.timeout,
        )
        try:
            listed = [entry["id"] for entry in json.loads(body)["data"]]
        except (LookupError, RecursionError, TypeError, ValueError):
            listed = []
        names = tuple(dict.fromkeys(n for n in listed if isinstance(n, str) and n.strip()))[:_MOST]
        if not names:
            raise self._unusable(f"it lists no models: {printable(body, 200)!r}", "model lists")
        return names
