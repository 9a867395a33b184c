"""The timetable of a student: courses with rules, the worked example of plans that hold."""

from cnp_router.timetable.course import (
    ASSESSMENTS,
    DAYS,
    FORMS,
    PERIODS,
    SLOTS,
    Course,
    check_slot,
    load_courses,
    read_courses,
    slot_in_words,
    slots_of,
)
from cnp_router.timetable.form import Form, Liking
from cnp_router.timetable.questions import Question

__all__ = [
    "ASSESSMENTS",
    "DAYS",
    "FORMS",
    "PERIODS",
    "SLOTS",
    "Course",
    "Form",
    "Liking",
    "Question",
    "check_slot",
    "load_courses",
    "read_courses",
    "slot_in_words",
    "slots_of",
]
