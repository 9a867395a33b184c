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

__all__ = [
    "ASSESSMENTS",
    "DAYS",
    "FORMS",
    "PERIODS",
    "SLOTS",
    "Course",
    "check_slot",
    "load_courses",
    "read_courses",
    "slot_in_words",
    "slots_of",
]
