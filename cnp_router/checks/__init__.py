"""The laws that every `Router` must obey, to be run on your own router too.

`check_router` runs them all; `laws` names them one by one, for a parametrised test. A law that is
broken raises an AssertionError that says how, and by which request.

Examples
--------
>>> from cnp_router.catalog import Api, Catalog
>>> from cnp_router.routing import SpecificationRouter
>>> catalog = Catalog([Api("maps", "Maps", "Shows places on a map."),
...                    Api("sms", "SMS", "Sends text messages."),
...                    Api("mail", "Mail", "Sends e-mail.")])
>>> check_router(SpecificationRouter(catalog))
>>> [name for name, check in laws(SpecificationRouter(catalog))][:2]
['recipients_descend', 'never_more_than_asked']
"""

from cnp_router.checks import conduct, decisions, restrictions  # noqa: F401  (registers laws)
from cnp_router.checks.law import (
    LAWS,
    ODD_REQUESTS,
    REQUESTS,
    Loader,
    check_router,
    check_saved_answers_the_same,
    check_unfitted_raises,
    laws,
)

__all__ = [
    "LAWS",
    "ODD_REQUESTS",
    "REQUESTS",
    "Loader",
    "check_router",
    "check_saved_answers_the_same",
    "check_unfitted_raises",
    "laws",
]
