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
abbreviation abstract account accuracy active activity actual address admin age agency agent air
aircraft airline airport album alias alpha alt altitude amount angle animal api app apparent
application appointment area array arrival art article artist artwork asset at athlete attribute
audience audio author authority available avatar average axis background balance bandwidth bar
base basis batch battery bbox best bio birth birthday blog blood body boolean border bottom box
branch brand breed browser bucket budget building bus business byte calendar camera campaign
capacity capital car card carrier cart case catalog category cell cent center century chain
channel chapter character charge chart cheapest chemical child children circuit city class
client climate clock closed cloud cm code collection color column comment community company
competition component compound concentration condition confidence config connection contact
content context continent contributor coordinate copyright core cost count counter country
county course cover coverage cpu created creation creator credit criteria crop crs ctime cuisine
currency current cursor customer cycle daily data database dataset date datetime day daylight
deadline debit decimal default degree delta density department departure depth description
destination detail device diagnosis diameter diff difference digit dimension direction directory
disease disk disorder distance district document doi domain donation done dosage dose dot down
drone drug dst duration early east edge edition effect efficiency elapsed element elevation
email employee empty enabled end energy engine entity entry environment episode epoch equipment
error estimate etag euro event exif expected expense experience expiration expiry expression
extension extent external face facility factor family fare farm feature fee feed feedback feels
field file filename filesize film final first flag flight float floor fluid folder follower
following font food forecast fork form format formatted formula fraction frame frequency from
full gain gallery game gate gender gene generationtime genetic genre geo geometry gist given
global goal government gpu grade graph gravatar grid gross ground group growth guest habitat
half hardware hash head header heading headline health heart heat height high highest history
holiday home hood host hotel hour house html http https humidity hunk icon id identifier image
inbox inch incident income index indicator individual industry info information ingredient
initial injury input instance institution int integer intensity interest interface internal
international interval inventory investment invoice ip is isbn isin iso issue item job journal
json key keyword kilometer kind km label lang language large last lat latency latitude layer
layout lead league leg length level library license light limit line link list listing lng loan
local locale location log login logo lon longitude low lowest m machine magnitude mailbox main
major manufacturer map margin market mass match material max maximum mean measure measurement
media median medication member memory menu message meta metadata meter method metric middle mile
mime min minimum minor minute mission mm mobile mode model modified module molecule monday month
monthly moon mother mountain mouse movie ms mtime muscle name nation national native net network
new news next nickname night node nominal north note null num number object observation
occupation of offer office offset old on online only opening option organism organization origin
original other out outcome output overall owner pace package page pagination parameter parent
part participant partner party passenger path patient pattern payload payment pdf peak people
per percent percentage percentile performance period person phase phone photo phrase picture
pixel place planet plant platform player playlist point policy polygon pool population port
portion position postal postcode power precipitation prefix pressure previous price primary
priority private prob probability procedure product production profile profit project property
protein provider province public publication published publisher purpose quality quantity
quarter query question queue quota quote radius rain rainfall range rank rate rating ratio reach
reading real reason received receiver recipe recipient record red ref reference region
registered relation relative release relevance religion remaining repo repository request
requirement resolution resource response restaurant result revenue revision reward right river
road robot role room root rotation round route row rule runtime safety sale sample satellite
saturday scale scene schedule schema scheme school scope score season seat second secondary
section sector security segment seller semester sender sensor sentence sequence serial series
server service session set severity sex sha shape short side signal similarity simple singer
site size skill sky slot slug small snapshot snippet snow software soil song source south space
span species speed sport square staff standard star starred start state static station statistic
status std step stock storage store storm story strategy stream street string structure student
style sub subject subscription substance subtitle subtotal suffix sum summary sun sunday sunrise
sunset supplier surface surname symbol system table tag tail target tariff tax team teaser
technology tel telephone telescope temp temperature tempo term terminal text theme theory
thickness thing thread threshold thumbnail ticker ticket tide time timeframe timestamp timezone
title tone tool tooth top topic total tour town track train transaction transcript translation
transport traveler treatment tree trend trip true truncated twitter type tz unit university unix
updated upper uri url usage user username utc uuid uv vacancy valid value variable variance
variant vehicle velocity vendor venue version vertex vertical video view village visibility
visitor voice volcano voltage volume vote warehouse warning water wave wavelength way weather
web website week weekday weekly weight west wide width wind window winner word work world x xml
y year yearly yesterday z zenith zip zone zoom
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
