"""One request, announced to everyone and announced by the router; and what is said in a round.

The offline model answers for manager and contractors, so this needs no network and no key. Its
traffic is that of the real prompts; its choices do not measure a language model.
"""

from __future__ import annotations

from cnp_router import ContractNet, fit_router, load_sample, offline_model

REQUEST = "Warn me by text message before it rains, and show it on a map."

sample = load_sample()
router = fit_router(sample.catalog, sample.history)
net = ContractNet(sample.catalog, offline_model(sample.catalog), router=router)

print(f"Request: {REQUEST}\n")
print(f"{'protocol':15} {'announced':10} {'messages':>8} {'tokens':>8}  recommendation")
for protocol in ("manager-led", "contractor-led", "collaborative", "single-agent"):
    for announcement in ("broadcast", "routed"):
        outcome = net.run_sync(REQUEST, protocol=protocol, announcement=announcement)
        ledger = outcome.ledger
        print(
            f"{protocol:15} {announcement:10} {ledger.n_messages:8,} {ledger.tokens:8,}  "
            f"{', '.join(outcome.recommendation)}"
        )

print("\nA contractor-led round, routed:\n")
transcript = net.run_sync(REQUEST, protocol="contractor-led").transcript
seen: dict[str, int] = {}
for message in transcript.messages:
    seen[message.performative] = seen.get(message.performative, 0) + 1
    if seen[message.performative] <= 2:
        record = message.to_dict()
        text = record.get("text") or record.get("request") or record.get("grounds") or ""
        names = [api["api"] if isinstance(api, dict) else api for api in record.get("apis", ())]
        content = " ".join([*names, text]).strip()
        print(
            f"{message.id:3}  {message.performative:15}  {message.sender:>15} -> "
            f"{message.receiver:15}  {content[:32]}".rstrip()
        )
print("\n" + ", ".join(f"{n} {performative}" for performative, n in seen.items()))
