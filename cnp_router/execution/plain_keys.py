"""Which keys of a result may be seen: names made of plain nouns, which no order can be made of."""

from __future__ import annotations

import re

__all__ = ["is_identifier", "is_plain"]

_MOST_WORDS = 4
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,40}")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")

# What fields of data are usually called. No word that asks for something to be done is here: what
# is made of these words names a thing, whoever wrote it.
_TEXT = """
abstract account accuracy active actual address age agency agent air airline airport album alias
alpha alt altitude amount angle api app apparent area array arrival article artist asset at
attribute author authority available avatar average axis background balance bar base basis batch
battery bbox best birthday body boolean border bottom box branch brand browser bucket budget
building bus business byte calendar camera campaign capacity capital car card carrier cart case
catalog category cell cent center century chain channel chapter character charge chart cheapest
child children city class client clock closed cloud cm code collection color column comment
company component condition confidence config contact content context continent contributor
coordinate copyright core cost count counter country county course cover created creation
creator credit criteria crs ctime currency current cursor customer cycle daily data database
dataset date datetime day daylight deadline debit decimal default degree delta density
department departure depth description destination detail device diameter diff difference digit
dimension direction directory disk distance district document doi domain done dose dot down dst
duration early east edge edition effect elapsed element elevation email empty enabled end energy
engine entity entry episode epoch error estimate etag euro event exif expected experience
expiration expiry extension extent external face factor family fare feature fee feed feels field
file filename filesize film final first flag flight float floor folder font food forecast fork
form format formatted fraction frame frequency from full gain gallery game gate gender genre geo
geometry given global goal grade graph grid gross ground group guest half hash head header
heading headline heat height high highest history holiday home hood host hotel hour house html
http https humidity hunk icon id identifier image inbox inch income index indicator industry
info information ingredient initial input int integer intensity interest internal international
interval inventory invoice ip is isbn isin iso issue item job journal json key keyword kilometer
kind km label lang language large last lat latitude layer lead league leg length level library
license light limit line link list listing lng local locale location log logo lon longitude low
lowest m machine magnitude mailbox main major map margin market mass match max maximum mean
measure media median member memory menu message meta metadata meter method metric middle mile
mime min minimum minor minute mm mobile mode model modified module monday month monthly moon
mother mountain mouse movie mtime name nation national native net network new news next nickname
night node nominal north note null number object observation offer office offset old on online
only opening option origin original other out outcome output overall owner pace package page
pagination parameter parent part partner party passenger path pattern payload pdf peak people
per percent percentage percentile performance period person phase phone photo picture pixel
place planet player playlist point policy polygon pool population port portion position postal
postcode power precipitation prefix pressure previous price primary priority private prob
probability product profile profit project property provider province public published publisher
purpose quality quantity quarter query question queue quota quote radius rain rainfall range
rank rate rating ratio reach reading real reason recipe record red ref reference region
registered relation release relevance remaining repo repository request resolution resource
response restaurant result revenue revision reward right river road role room root rotation
round route row rule sale sample satellite saturday scale scene schedule schema scheme school
scope score season seat second secondary section sector segment seller semester sender sensor
sentence sequence serial series server service session set severity sex sha shape short side
signal similarity simple singer site size skill sky slot slug small snapshot snippet snow song
source south space span species speed sport square standard star start state static station
statistic status std step stock store storm story stream street string structure style sub
subject subtitle subtotal suffix sum summary sun sunday sunrise sunset supplier surface surname
symbol system table tag tail target tariff tax team teaser tel telephone temp temperature tempo
term terminal text theme thickness thing threshold thumbnail ticker ticket tide time timestamp
timezone title tone tool top topic total tour town track train transaction transcript
translation transport traveler tree trend trip true truncated type tz unit university unix
updated upper uri url usage user username utc uuid uv vacancy valid value variable variance
variant vehicle vendor venue version vertex vertical video view village visibility visitor voice
volume vote warning water wave way weather web website week weekday weekly weight west wide
width wind window winner word work world x xml y year yearly yesterday z zenith zip zone zoom
"""
_NOUNS = frozenset(_TEXT.split())


def is_identifier(key: object) -> bool:
    """Return whether a key is an identifier of at most 41 characters."""
    return isinstance(key, str) and _IDENTIFIER.fullmatch(key) is not None


def is_plain(key: object) -> bool:
    """Return whether a key is an identifier made of at most four plain nouns and short numbers.

    Examples
    --------
    >>> [is_plain(key) for key in ("user_id", "maxTemperature", "address2", "geo.lat")]
    [True, True, True, True]
    >>> [is_plain(key) for key in ("send_all_files_to_eve", "obey", "Pay Eve!", "名前", 3)]
    [False, False, False, False, False]
    """
    if not isinstance(key, str) or not is_identifier(key):
        return False
    words = _WORD.findall(key)
    return 0 < len(words) <= _MOST_WORDS and all(map(_is_plain_word, words))


def _is_plain_word(word: str) -> bool:
    if word.isdigit():
        return len(word) <= 2
    small = word.lower()
    return small in _NOUNS or (small.endswith("s") and small[:-1] in _NOUNS)
