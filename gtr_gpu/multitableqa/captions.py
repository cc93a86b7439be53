"""What a caption says "this team", "this season" or "he" stand for."""

from __future__ import annotations

import re

from gtr_gpu.multitableqa.wording import word_set

_KINDS = {
    "person": """
        player actor actress person racer competitor driver singer artist athlete curler golfer politician director
        writer swimmer wrestler boxer rider cyclist skier musician rapper author poet man woman model comedian
        performer candidate fighter runner gymnast coach pitcher quarterback skater jockey composer producer
    """,
    "team": """
        team club franchise squad side
    """,
    "group": """
        band group duo ensemble
    """,
    "work": """
        album show series film movie song book novel magazine program programme sitcom drama anime cartoon
        soundtrack single ep musical opera
    """,
    "organization": """
        company school university college organization organisation network station airline party league conference
        label museum church
    """,
    "place": """
        country nation city town state province county district region village island area river lake building
        airport mountain location stadium
    """,
    "event": """
        season race competition event tournament championship olympics game olympic election draft cup series tour
        match festival census war prix meet paralympics contest
    """,
}
_KIND_OF = {noun: kind for kind, nouns in _KINDS.items() for noun in nouns.split()}
# Nouns that a caption never stands for: what they mean stands in the sentence or nowhere.
_NEVER = word_set(
    """
    year time date period way day month week point case reason score number amount type kind moment result purpose
    same century decade
    """
)
# Words of captions that describe a table rather than name one thing.
_DESCRIBING = word_set(
    """
    list lists season seasons results result statistics stats records record championship championships cup league
    division election elections tournament open classification demographics economy geography history squad squads
    roster transfers draft population awards nominations games olympics discography filmography episodes rankings
    standings comparison timeline prix masters trophy marathon schedule members characters winners leaders episode
    series tour qualification qualifying round final finals race men women men's women's
    """
)
_SPORTS = word_set(
    """
    archery athletics badminton baseball basketball biathlon bobsleigh bowling boxing canoeing cue curling cycling
    diving equestrian fencing football gymnastics handball hockey judo karate luge polo rowing rugby sailing
    shooting skating skiing softball squash swimming synchronized taekwondo tennis triathlon volleyball
    weightlifting wrestling
    """
)
_ORGANIZED = word_set(
    """
    fc f.c. ac sc cf afc club team university college school institute island islands river company group band
    county city airport association party network station records party stadium army navy force
    airlines airways railway music
    """
)
_LEAGUE = re.compile(
    r"\b(league|cup|division|championships?|conference|liga|serie|bundesliga|premier|premiership|primera|segunda|eredivisie|"
    r"allsvenskan|veikkausliiga|tour|series|nba|nfl|nhl|mlb|atp|wta|formula|grand prix|in)\b",
    re.IGNORECASE,
)
_YEAR = r"\d{4}(?:\s?[-\u2013/]\s?\d{2,4})?"
_SEASON = re.compile(rf"(?P<team>{_YEAR} .+?) season", re.IGNORECASE)
_TEAM = re.compile(r".+ team", re.IGNORECASE)
_AT = re.compile(r"(?P<who>.+?) (?:at|in) the (?P<event>[^\u2013]+?)(?: [-\u2013] .*)?", re.IGNORECASE)
_GAMES = re.compile(r"\b(olympics?|paralympics?|games|championships?|contest|cup|universiade)\b", re.IGNORECASE)
_RECEIVED = re.compile(
    r"list of (?:awards(?: and nominations)?|songs|works|films|acting roles) "
    r"(?:received|recorded|written|performed) by (?P<name>.+)",
    re.IGNORECASE,
)
_EPISODES = re.compile(r"list of (?P<name>.+?) (?:episodes|characters)(?: \(.*\))?", re.IGNORECASE)
_WORKS = re.compile(
    r"(?P<name>.+?)(?:'s?)? (?:(?:albums|singles|video) )?"
    r"(?:discography|filmography|videography|bibliography|(?:career )?statistics)",
    re.IGNORECASE,
)
_ABOUT = re.compile(r"(?:\w+ ){1,3}(?:of|in) (?:the )?(?P<place>[^\d]+)", re.IGNORECASE)
_QUALIFIER = re.compile(r"\s*\([^)]*\)$")
_SECTION = re.compile(r"(?<=[^\d\s]) - (?=[A-Z0-9\"'])")


def title_of(caption: str) -> str:
    """A caption without the section that some sources put behind the page's title ("Page - Section -- Part")."""
    flat = " ".join(caption.split())
    if not re.search("[A-Z]", flat):
        return flat
    return _SECTION.split(flat, maxsplit=1)[0]


def singular(noun: str) -> str:
    """A noun in lower case, without a plural's s."""
    lower = noun.lower()
    if lower in _KIND_OF or lower.endswith(("ss", "us", "is")):
        return lower
    if lower.endswith("ies"):
        return lower[:-3] + "y"
    return lower.removesuffix("s")


def quoted(title: str) -> str:
    """A title in curly quotation marks."""
    return f"\u201c{title}\u201d"


def entity(noun: str, caption: str) -> str | None:
    """What "this" and a noun stand for on a page with this caption: a name, or a phrase with its article.

    Args:
        noun: The noun, such as `team`; `person` for "he" and "she".
        caption: The caption.

    Returns:
        None where the caption doesn't tell.
    """
    title, kind = title_of(caption), _KIND_OF.get(singular(noun))
    if not title or kind is None:
        return None
    found = _named(kind, singular(noun), title)
    if found:
        return found
    name = _QUALIFIER.sub("", title)
    return name if _is_name(kind, name) else None


def stands_for(noun: str, caption: str) -> str | None:
    """The explicit reference for "this" and a noun: what it stands for, or "the ... in" and the title.

    Returns:
        None where the noun is one that no caption stands for, or there is no caption.
    """
    title = title_of(caption)
    if not title or singular(noun.split()[-1]) in _NEVER:
        return None
    # A page with several sections has tables on many things; the page's name isn't that of each.
    whole = " ".join(caption.split()) == title
    return (entity(noun.split()[-1], caption) if whole else None) or f"the {noun} in {quoted(title)}"


def possessive(name: str) -> str:
    """The genitive of a name."""
    return name + ("'" if name.endswith("s") else "'s")


def _named(kind: str, noun: str, title: str) -> str | None:
    """What the form of the title tells."""
    season = _SEASON.fullmatch(title)
    if season and kind == "team" and not _LEAGUE.search(season["team"]):
        return f"the {season['team']}"
    if kind == "team" and _TEAM.fullmatch(title):
        return f"the {title}"
    at = _AT.fullmatch(title)
    if at and _GAMES.search(at["event"]):
        described = {"list", *_SPORTS} & set(at["who"].lower().split())
        if kind in ("place", "team") and not described:
            return at["who"]
        if noun in ("olympics", "olympic", "game", "paralympics", "tournament", "championship"):
            return f"the {at['event']}"
    works = _RECEIVED.fullmatch(title) or _WORKS.fullmatch(title)
    if works and kind in ("person", "group"):
        return works["name"]
    episodes = _EPISODES.fullmatch(title)
    if episodes and kind == "work":
        return episodes["name"]
    about = _ABOUT.fullmatch(title)
    if about and noun in ("country", "nation") and len(about["place"].split()) < 4:
        return about["place"]
    if (
        kind == "event"
        and not _TEAM.fullmatch(title)
        and (re.match(r"\d{4}\b", title) or re.search(rf"\b{noun}s?$", title, re.IGNORECASE))
    ):
        return title if title.lower().startswith(("the ", "list of")) else f"the {title}"
    return None


def _is_name(kind: str, title: str) -> bool:
    """Whether a title looks like the name of one thing of this kind."""
    words = title.lower().split()
    # Albums and films have numbers in their names, but seldom begin with a year.
    numbered = re.match(r"\d{4}\b", title) if kind == "work" else re.search(r"\d", title)
    if numbered or not _DESCRIBING.isdisjoint(words) or len(words) > 5:
        return False
    if {"in", "at", "by", "from", "per"} & set(words) or words[0] == "list":
        return False
    if kind == "person":
        return 2 <= len(words) <= 3 and _ORGANIZED.isdisjoint(words) and not {"of", "and", "the", "&"} & set(words)
    return kind != "event"
