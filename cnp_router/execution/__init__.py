"""From award to action: plans of jobs, calls of tools, what came of them."""
