"""Which APIs are used together, which comes next, and how near others are."""

import tempfile
from pathlib import Path

from cnp_router import TransitionGraph, export_graph, load_sample

sample = load_sample()
graph = TransitionGraph().fit(sample.history, sample.catalog)

print("with Google Maps:")
for candidate in graph.predict_next(["google-maps"], k=3):
    print(f"  {candidate.api:<14} {candidate.probability:.2f}  seen {candidate.count} times")

walk = graph.random_walk({"google-maps": 2.0, "stripe": 1.0})
near = walk.top(3, exclude={"google-maps", "stripe"})
print("near both:", ", ".join(reached.api for reached in near))

directed = TransitionGraph(directed=True).fit(sample.history, sample.catalog)
after = directed.predict_next(["google-vision"], k=1)[0]
print(f"after Google Vision: {after.api} ({after.probability:.2f})")

with tempfile.TemporaryDirectory() as folder:
    export_graph(graph, Path(folder, "graph.gexf"), min_count=2)
    print("for Gephi:", [file.name for file in Path(folder).iterdir()])
