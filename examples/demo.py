"""The tour: learn from the bundled sample, route one request, and count what that saved."""

import time

from cnp_router import fit_router, load_sample

REQUEST = "Warn me by text message when rain is on its way to my home, and show it on a map."

sample = load_sample()
start = time.perf_counter()
router = fit_router(sample.catalog, sample.history, n_jobs=-1)
seconds = time.perf_counter() - start
sizes = f"{len(sample.history)} mashups over {len(sample.catalog)} APIs"
print(f"Learned from {sizes} in {seconds:.1f} s.")

routing = router.route(REQUEST)
print(f"\nRequest: {REQUEST}\n")
for recipient in routing.recipients[:5]:
    why = recipient.reasons[0].text if recipient.reasons else ""
    print(f"  {recipient.probability:.2f}  {recipient.contractor:<24} {why}")
print(f"\nIt needs, most likely: {', '.join(routing.recommendation)}.")

asked, everyone = len(routing.recipients), routing.n_apis
print(
    f"The announcement goes to {asked} contractors instead of {everyone} "
    f"({1 - asked / everyone:.0%} saved), with confidence {routing.confidence:.2f}."
)
