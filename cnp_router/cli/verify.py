"""``cnp-router verify``: whether a model is to the last bit what was saved."""

from __future__ import annotations

from pathlib import Path

from cnp_router.cli import llm_options, options
from cnp_router.cli.models import fitted_router, size
from cnp_router.cli.output import counted, echo_json, echo_pairs


@options.command("cnp-router verify --model model")
@options.fitted_model
@llm_options.encoder_options
@options.as_json
def verify(*, model: Path, vectors: llm_options.Vectors, json_: bool) -> None:
    """Check that a model is to the last bit what was saved.

    Compares every file with its checksum, loads the router, and has it learn what was observed
    since. For a model that was copied or downloaded: checksums find damage, not forgery.
    """
    from cnp_router.training import verify_router

    fitted = verify_router(model)
    since = len(fitted_router(model, vectors).history) - len(fitted.history)
    n_files, megabytes = size(model)
    apis, mashups = len(fitted.catalog), len(fitted.history)
    if json_:
        echo_json({"files": n_files, "apis": apis, "mashups": mashups, "observed": since})
        return
    echo_pairs(
        [
            ("Sound", f"{n_files} files, {megabytes:.1f} MB, as they were saved"),
            ("Learned from", f"{counted(mashups, 'mashup')} over {counted(apis, 'API')}"),
            ("Observed since", counted(since, "mashup")),
        ]
    )
