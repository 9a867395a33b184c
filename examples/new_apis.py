"""Add APIs to a fitted router without fitting again: they are cold, known by specification."""

from cnp_router import Api, fit_router, load_sample

REQUEST = "Show free parking spaces near the concert hall on a map."

sample = load_sample()
router = fit_router(sample.catalog, sample.history)
parking = Api(
    id="park-here",
    name="ParkHere",
    description="Finds free parking spaces and garages near a place, with prices.",
    categories=("Mapping", "Transportation"),
)
wider = router.extended([parking])

for name, each in (("before", router), ("after", wider)):
    best = each.score(REQUEST).top(3)
    print(f"{name:<7}", ", ".join(f"{api} {probability:.2f}" for api, probability in best))
