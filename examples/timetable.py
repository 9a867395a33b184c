"""A timetable from Python: a form, what it leads to, a revision, and a conflict explained."""

from dataclasses import replace

from cnp_router import Form, InfeasibleError, Liking, propose

form = Form(
    department="Psychology and Society",
    year=1,
    min_credits=10,
    max_credits=14,
    first_period=False,
    gaps=True,
    free_day="Fri",
    interests="psychology, education",
)
proposal = propose(form)
for course in proposal.timetable:
    print(f"{course.slot or 'any':6} {course.credits:3g}  {course.name}")
print(f"{proposal.credits:g} credits")

revised = proposal.revise("no Monday, more seminars")
assert revised.revision is not None
print("\nKept:", ", ".join(revised.revision.kept))
for name, why in revised.revision.dropped.items():
    print(f"Dropped {name}: {why}")
print("Added:", ", ".join(revised.revision.added))

strict = Liking(excluded=("exam", "quizzes"))
full = replace(form, min_credits=40, max_credits=42, assessment=strict)
try:
    propose(full)
except InfeasibleError as error:
    print("\nIn conflict:")
    for reasons in error.reasons.values():
        print("-", ", ".join(reasons))
