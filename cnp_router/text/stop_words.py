"""Words that say nothing of what a request is for: function words, and those of asking."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["STOP_WORDS", "foreign_stop_words"]

# In a text of a few words they would be as telling as any other: function words, and those of
# asking ("please help me find"), which requests are full of and specifications are not.
_FUNCTION = (
    "a about after all also am an and any are as at be been before being between both but by can "
    "could did do does doesn don each every for from get give has have how i if im in into is isn "
    "it its let like ll make may me might more must my no not of on one or other our out re shall "
    "should so some such than that the their them then there they this to up us use using ve via "
    "was we were what when where which who will with would you your"
)
_ASKING = (
    "able assist assistance currently hello help hi interested just kindly know look looking need "
    "needed needs please provide really show sure tell thank thanks try trying want wanted wants"
)
STOP_WORDS = frozenset(f"{_FUNCTION} {_ASKING}".split())
# The same of other languages, for texts in them: a further one is one entry.
_BY_LANGUAGE = {
    "German": (
        "aber alle alles als also am an ans auch auf aus bei beim bin bis bist bitte da damit "
        "danke dann das dass dein deine dem den denn der des dich die dies diese diesem diesen "
        "dieser dieses dir doch du durch ein eine einem einen einer eines er es etwas euch euer "
        "für gern gerne habe haben hallo hast hat hatte hier hätte ich ihm ihn ihr ihre ihren im "
        "in ins ist ja jede jeden jeder kann kannst können könnte könntest man mein meine meinem "
        "meinen meiner mich mir mit muss musst möchte möchten müssen nach nicht noch nun nur ob "
        "oder ohne schon sehr sein seine sich sie sind so soll sollen sollte um und uns unser "
        "unsere unter vom von vor war warum was weil welche welchen welcher welches wenn wer "
        "werden will willst wir wird wo würde zu zum zur über"
    ),
    "French": (
        "afin ai ainsi alors as au aussi aux avec avez avoir bien bonjour ce cela celle ces cet "
        "cette ceux chez ci comme comment dans de des donc dont du elle elles en est et eux faut "
        "il ils j je l la le les leur leurs lui là ma mais me merci mes moi mon n ne nos notre "
        "nous on ont ou où par pas pendant peut peux plaît plus pour pourquoi pourrais pourriez "
        "pouvez qu quand que quel quelle quelles quels qui quoi s sa sans se ses si sont sous "
        "suis sur svp t ta te tes toi ton tous tout toute toutes tu un une va veux vos votre "
        "voudrais vous y à été être"
    ),
    "Spanish": (
        "a al algo antes aquí así aún como con cual cuando cuál cuándo cómo de del desde donde "
        "dos dónde e el ella ellos en entre era eres es esa ese eso esta estar este esto está "
        "están favor fue gracias ha hasta hay he hola la las le les lo los me mi mis mucho muy "
        "más nada ni no nos nosotros nuestra nuestro o os otra otro para pero podría podrías por "
        "porque puede puedes que quiero quisiera quién qué se sea ser si sin sobre son soy su sus "
        "sí también te tengo ti tiene todo todos tu tus un una unas uno unos usted y ya yo él"
    ),
    "Italian": (
        "a ai al alla alle allo anche avere c che chi ci ciao col come con cosa cui da dal dalla "
        "dei del della delle dello di dove e ed essere fa favore fra gli grazie ha hai hanno ho i "
        "il in io l la le lei lo loro lui ma me mi mia mie miei mio ne nei nel nella nelle nello "
        "no noi non nostra nostro o per perché più poi posso potresti puoi può qual quale quali "
        "quando quanto quella quello questa questo qui se sei senza si sono su sua sue sul sulla "
        "suo sì te ti tra tu tua tuo tutti tutto un una uno vi voglio voi vorrei è"
    ),
    "Portuguese": (
        "a ao aos as até com como da das de dela dele deles do dos e ela ele eles em entre era "
        "essa esse esta este está eu favor foi há isso isto já lhe mais mas me mesmo meu meus "
        "minha minhas muito na nas nem no nos nossa nosso num numa não o obrigada obrigado olá "
        "onde os ou para pela pelo pelos pode poderia podes por porque posso qual quando quanto "
        "que quem quero se sem ser seu seus sobre sua suas só também te tem tenho ter teu tu tua "
        "um uma você vocês à às é"
    ),
    "Dutch": (
        "aan al alle als alsjeblieft alstublieft bedankt ben bent bij dan dat de deze die dit "
        "door dus een en er geen graag had heb hebben heeft hem het hier hij hoe hun ik in is ja "
        "je jij jouw jullie kan kun kunnen kunt maar mag me mij mijn moet moeten na naar niet nog "
        "nu of om onder ons onze ook op over te tegen tot u uit uw van veel voor waar wat we wel "
        "welke wie wij wil wilt worden wordt ze zich zij zijn zo zonder zou"
    ),
    "Swedish": (
        "alla allt att av behöver blir de dem den denna det detta dig din dina ditt du där då "
        "efter en ett från för genom ha hade han har hej hon honom hur här i inte ja jag kan "
        "kommer kunna man med mellan men mig min mina mitt mycket nu när någon något och om oss "
        "på sig sin skulle snälla som tack till under upp ut utan vad var vara vem vi vid vilken "
        "vilket vill vår än är åt"
    ),
    "Danish and Norwegian": (
        "af alle alt at av de dem den denne der deres det dette dig din du efter eller en er et "
        "ett etter for fra gjerne ha han har havde hej hun hva hvad hvem hvilken hvis hvor "
        "hvordan hvorfor i ikke ja jeg kan kunne man med meg men mig min mine mit mitt må nå når "
        "og også om op oss over på seg sig som så tak takk til ud under ut vi vil ville vores vær "
        "være å"
    ),
}
_LEAST, _LEAST_SHARE = 2, 0.2  # of the different words of a text

_LANGUAGES = [frozenset(words.split()) for words in _BY_LANGUAGE.values()]
# Letters tell no language: they are also what is left of Germany's, or of e-mail.
_TELLING = {word for own in _LANGUAGES for word in own - STOP_WORDS if len(word) > 1}
# These are English, too, and tell it beside others only.
_ALSO_ENGLISH = {"as", "come", "den", "die", "do", "dove", "er", "hat", "la", "las", "los", "man"}
_ALSO_ENGLISH |= {"men", "mine", "per", "pour", "sans", "son", "te", "till", "um", "van", "war"}
_NONE = frozenset[str]()


def foreign_stop_words(words: Iterable[str]) -> frozenset[str]:
    """Return the stop words of the language of a text, none if it is English or cannot be told.

    It is told by the words that only one of the two has.

    Examples
    --------
    >>> sorted(foreign_stop_words("mach das licht im bad aus".split()) & {"aus", "im", "licht"})
    ['aus', 'im']
    >>> foreign_stop_words("im and sms for mit students".split())
    frozenset()
    """
    said = frozenset(words)
    found = said & _TELLING
    least = max(_LEAST, _LEAST_SHARE * len(said))
    if len(found) < least or found <= _ALSO_ENGLISH:
        return _NONE
    english = said & STOP_WORDS
    language = max(_LANGUAGES, key=lambda own: len(found & own))
    n = len(found & language)
    return language if n >= least and n > len(english - language) else _NONE
