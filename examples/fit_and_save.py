"""The Python API in short: fit, recommend, route, save and load."""

import tempfile
from pathlib import Path

from cnp_router import TargetRecall, fit_router, load_router, load_sample

sample = load_sample()
router = fit_router(sample.catalog, sample.history)
print("needed:", ", ".join(router.recommend("Post a photo of every sold house to Instagram.")))

request = "Translate the menu and read it aloud."
almost_all = TargetRecall(0.95)
routing = router.route(request, ["google-vision"], select=almost_all, fallback="broadcast")
print("asked:", len(routing.recipients), "of", routing.n_apis, "by", routing.source)

with tempfile.TemporaryDirectory() as folder:
    router.save(Path(folder, "model"))
    loaded = load_router(Path(folder, "model"))
again = loaded.route(request, ["google-vision"], select=almost_all, fallback="broadcast")
print("the same after loading:", again.contractors == routing.contractors)
