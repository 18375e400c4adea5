"""How a person means a sentence: as a cause that was found, as a guess, as advice, or as a negation."""

from __future__ import annotations

import functools
import re

from gdrkit.explain import outcomes


@functools.cache
def _compiled(name: str) -> re.Pattern[str]:
    return re.compile(_PATTERNS[name], re.IGNORECASE)


_PATTERNS = {
    "found": (
        r"\bthe (?:error|failure|crash|hang) (?:is|was) (?:an?|due|because|caused)\b"
        r"|\b(?:root[- ]?cause[ds]?|root problem|culprit|turn(?:s|ed) out|caused by|the cause|causes?\b"
        r"|(?:was|is) the (?:problem|issue|reason|cause|fix|solution|answer)"
        r"|the (?:actual |real |main |underlying )?(?:problem|issue|reason|explanation|fix|solution)"
        r" (?:was|is)"
        r"|(?:problem|issue)s? (?:was|were|is|are|got|gets) (?:solved|fixed|resolved|gone|caused)"
        r"|(?:solved|fixed|resolved|repaired|cured) (?:all )?(?:it|this|that|the|my|our|by|with|after|when)"
        r"|(?:solves|fixes|resolves|explains) (?:it|this|that|the|my|our)"
        r"|until (?:I|we|he|they|the)"
        r"|after (?:I|we|he|they|having) (?:had |then )?(?:load|install|disabl|enabl|set|chang|upgrad"
        r"|updat|remov|add)"
        r"\w*|after (?:chang|sett|load|disabl|enabl|install|remov|add|switch|rebuild"
        r"|reinstall)\w*ing"
        r"|now (?:it |the job )?runs|(?:it|job|test|training) (?:now )?runs(?: again| fine"
        r"| now)?(?=[.!,]|$)"
        r"|now (?:it )?works|works (?:now|again|fine (?:now|again|after|with|when)|after|once"
        r"|when|if)"
        r"|(?:that|this|it) (?:did|does) (?:it|the trick)|helped|because|due to|comes? from"
        r"|responsible for"
        r"|never ?mind|silently (?:breaks?|disables?|drops?|ignores?|turns off)"
        r"|known (?:bug|issue|problem|limitation)|bug in|harmless|workaround(?= (?:is|was|to)\b|:)"
        r"|typo|misspelt|misspelled)\b"
        r"|\b(?:solved|fixed|resolved) ?[:!]|\b(?:fix|solution|resolution|cause|reason|answer)\*{0,2} ?:"
        r"|\u6839\u672c|\u539f\u56e0|\u5bfc\u81f4"
        r"|\u5df2\u7ecf?\u89e3\u51b3|\u89e3\u51b3\u4e86|\u56e0\u4e3a"
        r"|\u7531\u4e8e|\u6838\u5fc3\u662f|\u539f\u56e0\u306f|\u305f\u3081|\u89e3\u6c7a|\uc6d0\uc778"
        r"|\ub54c\ubb38|\ud574\uacb0"
        r"|\b(?:Ursache|lag an|l[i\u00e4]egt? an|weil|gel\u00f6st|behoben|cause[ds]? par|r\u00e9solu"
        r"|parce que|porque|causado|solucionado|resuelto|causa|seems? to (?:have )?(?:fix|resolv"
        r"|solv|cur)\w*)\b"
        r"|\u043f\u0440\u0438\u0447\u0438\u043d|\u0438\u0437-\u0437\u0430|\u0440\u0435\u0448\u0435\u043d"
    ),
    "cured": (
        r"\b(?:had to (?:\w+ly )?(?:add|install|load|mount|set|pass|disabl|enabl"
        r"|upgrad|updat|downgrad|rebuil|reinstall|recompil|remov|switch|chang|start|restart|expos|give|grant"
        r"|us|modprobe)\w*|(?:I|we) (?:simply |just )?forgot|my (?:mistake|fault|bad)"
        r"|(?:concluded|confirmed|found|found out|figured out|reali[sz]ed|discovered|noticed) (?:that|why)"
        r"|(?:traced?|tracked|narrowed|boil(?:s|ed)) (?:\w+ ){0,4}(?:to|down)|stem(?:s|med) from"
        r"|attribut(?:ed|able) to|as a result of|bisect\w*|(?:introduced|broken) (?:by|in|since)"
        r"|(?:managed|was able|were able) to (?:fix|solve|resolve|get)"
        r"|(?:now|and|then) (?:\w+ ){0,2}works?"
        r"|work(?:s|ed|ing) (?:now|again|(?:fine|well|perfectly)(?: (?:now|again|after|with|when|if|without)"
        r"|(?=\W*$))|perfectly|with|(?:only )?(?:after|once|when|if|as soon as|without))"
        r"|(?:it|this|that|everything|all|and|then) (?:all )?worked(?=\W*$|[.!,;])"
        r"|(?:made|makes|gets?|got|lets?)\b.{0,40}\b(?:work(?:ing)?|run(?:ning)?)(?=\W*$|[.!,;])"
        r"|(?:error|problem|issue|failure|warning|message|crash|hang|symptom)s?"
        r" (?:(?:is|are|was|were|has|have|had) )?(?:now )?(?:gone|disappear\w*|vanish\w*|go(?:es)? away"
        r"|went away)"
        r"|(?:do|does|did)(?: not|n't) (?:occur|happen|reproduce|appear|show up)(?: any ?more)? (?:when|if"
        r"|with\w*"
        r"|on|after|once)"
        r"|only (?:if|when|after|once)"
        r"|(?:only|just) (?:happen|occur|fail|crash|reproduce|work|find|see|detect)s?\b.{0,24} (?:when|if"
        r"|with\w*|on"
        r"|after|once))\b"
        r"|\b(?:solved|fixed|resolved)(?=[.,!;]|$)|\bfixed this\b|\bthat was it\b|^\W*it was\b"
        r"|\bafter\b.{0,80}\b(?:we|I|it) (?:got|gets?|see|saw|reach\w*|measured?)\b"
        r"(?! (?:no\b|nothing|an? (?:\w+ )?(?:error|failure|warning|crash|hang)|errors?\b|only\b|this\b"
        r"|the follow))"
        r"|\u540e\u89e3\u51b3|[\u5c31\u540e\u4e86](?:\u53ef\u4ee5|\u597d\u4e86|\u6b63\u5e38|\u6210\u529f)"
        r"|\u6062\u590d|\u641e\u5b9a"
        r"|\bthen\b.{0,30}\bloaded(?=\W*$)|\bnow (?:it |NCCL |the log )?(?:shows|says|uses|reports|reaches"
        r"|gets)\b"
    ),
    "root": (
        r"\broot[- ]?cause[sd]?(?:\W{0,3}(?:is|was|were|are|here|appears|turned|for|of|by)\b|:)"
        r"|^\W*root[- ]?cause\W*$|\b(?:culprit|turn(?:s|ed) out"
        r"|the (?:actual |real |main |underlying )?(?:cause|reason) (?:is|was|here is))\b"
        r"|\u6839\u672c\u539f\u56e0|\u539f\u56e0\u662f|\u6839\u56e0"
    ),
    # it is said to be the cause or the cure, and not only to follow from something
    "definite": (
        r"\b(?:found|figured|discovered|reali[sz]ed|concluded|confirmed)\b.{0,160}\b(?:because|due to)\b|"
        r"\broot[- ]?cause|\bculprit\b|\bturn(?:s|ed) out\b|\bcaused by\b"
        r"|\b(?:problem|issue|reason|cause|fix|solution|explanation|answer|resolution)s?\b.{0,40}\b(?:was|is|were)\b"
        r"|\b(?:was|is|were) the (?:\w+ )?(?:problem|issue|reason|cause|fix|solution|answer)s?\b"
        r"|\b(?:fix|solution|resolution|cause|reason|answer|solved|fixed|resolved)\*{0,2} ?[:!]"
        r"|\b(?:solve|fix|resolve|cure)(?:s|d|ed)\b|\bhad to \w+|\b(?:I|we) (?:simply |just )?forgot\b"
        r"|\bafter (?:I|we|having|\w+ing)\b|\bthat was it\b|\b(?:did|does) the trick\b|\bhelped\b"
        r"|\bnever ?mind\b"
        r"|\b(?:now|then|again|it|everything)\b.{0,12}\bworks?(?:ed)?\b|\bworks? (?:now|again|after|once)\b"
        r"|\b(?:gone|disappear\w*|went away|goes away)\b|\b(?:traced?|tracked|narrowed)\b"
        r"|\u6839\u672c|\u539f\u56e0|\u89e3\u51b3|\u597d\u4e86|\u89e3\u6c7a|\uc6d0\uc778|\ud574\uacb0"
        r"|\b(?:Ursache|gel\u00f6st|behoben|lag an|r\u00e9solu|solucionado|resuelto)\b"
        r"|\u043f\u0440\u0438\u0447\u0438\u043d|\u0440\u0435\u0448\u0435\u043d"
    ),
    # a request for a feature or for documentation
    "request": (
        r"^\W*(?:\[?(?:docs?|documentation|feature(?: request)?|feat|rfc|rfe|proposal|enhancement|roadmap"
        r"|question|discussion)\]?\s*[:/\]\uff1a(]|\[(?:[^\]]{1,30}\W)?(?:docs?|feature|rfc|proposal)\])"
        r"|\bfeature request\b|\b(?:it would be|would be) (?:nice|great|good|helpful|useful)\b"
        r"|\bplease (?:add|support|document|consider)\b"
    ),
    # how things are or would be, for everyone or elsewhere: not what this machine has
    "general": (
        r"\botherwise\b.{0,60}\b(?:would|will|must|can|may)\b"
        r"|\b(?:in theory|in principle|by design)\b"
        r"|\bis (?:very |quite |especially )?(?:important|essential|crucial|critical)\b"
        r"|\b(?:according to|as per|says|states|documented in|quot\w+)\b.{0,30}"
        r"\b(?:doc\w*|readme|manual|guide|release notes|wiki|FAQ)\b"
        r"|\b(?:docs?|documentation|readme|manual|guide|release notes|wiki|FAQ)\b.{0,20}"
        r"\b(?:says?|states?|mentions?|lists?|explains?)\b"
        r"|\b(?:on|in|with|for) (?:the |an?|our |my |some )?(?:other|another|different|old|previous|former)"
        r" (?:node|machine|server|host|cluster|system|box|setup|site|customer|environment|team|project)s?\b"
        r"|\b(?:back then|in the past|years? ago|months? ago|last (?:year|month|week)|used to be"
        r"|previously|formerly|at the time)\b"
        r"|\b(?:has|have|had|was|were|is) (?:since |already |long )+(?:been )?"
        r"(?:fixed|solved|resolved|corrected)\b"
        r"|\b(?:fixed|solved|resolved) (?:already|in (?:v|version|release|the latest|newer|r?\d))"
        r"|\bsimilar (?:issue|problem|report|case|thread)s?\b|\bunrelated\b"
        r"|^\W*(?:unless|whenever|suppose|assuming|imagine)\b"
        r"|\b(?:if|where|whenever|unless) (?:the|an?|your) (?:\w+ ){0,2}"
        r"(?:GPU|NIC|HCA|card|device|kernel|driver|platform|system)s?\b.{0,24}\b(?:not|n't|lacks?)\b.{0,12}"
        r"\bsupport"
    ),
    # the same, unless the sentence says what its writer saw
    "loosely": r"\b(?:generally|typically|usually|normally|in general)\b|\bfor (?:example|instance)\b",
    "observed": (
        r"\b(?:when|where|while|as) (?:we|I) \w+\b|\bin (?:my|our) case\b"
        r"|\b(?:we|I) (?:saw|had|got|hit|found|encountered|observed|noticed|see|have|get|ran into)\b"
        r"|\b(?:my|our) [\w-]+ (?:was|were|is|are|had|has)\b"
    ),
    # what a symptom usually means: a guess about the one that is reported
    "habit": (
        r"\b(?:usually|typically|normally|generally|often|mostly|commonly|most likely|in most cases"
        r"|frequently)\b.{0,24}\b(?:due to|caused by|because|means?|indicates?|points? to|comes? from"
        r"|sign of|result of|happens? (?:when|if)|the case (?:when|if)|related to)\b"
        r"|\b(?:due to|caused by|because of)\b.{0,60}\b(?:usually|typically|in most cases)\b"
    ),
    "follows": (
        r"\b(?:caused by|causes?|because|due to|root cause|reason|comes? from"
        r"|as a result|which (?:causes|leads|breaks)|leads? to|results? in"
        r"|rejected)\b"
        r"|\u539f\u56e0|\u5bfc\u81f4|\u56e0\u4e3a|\u7531\u4e8e|\u6838\u5fc3"
    ),
    "guess": (
        r"\b(?:possible|potential) (?:root )?(?:causes?|reasons?)\b"
        r"|\?\s*[\"')*]*$|\uff1f|^\W*question\b|\b(?:maybe|perhaps|might|may be|could (?:be|it)|can it"
        r"|is it|i (?:think|guess|suspect"
        r"|believe|assume|wonder)|not sure|probably|possibly|seems?(?! to (?:have )?(?:fix|resolv"
        r"|solv|cur))|suspected|presumably|wondering"
        r"|what(?:'s| is| was| could be)? (?:the )?(?:root )?(?:cause|reason)|does anyone|(?:do"
        r"|does|did|is|are|can|should|will|would) (?:I|we|it|there|this|that|the"
        r"|NCCL|UCX)\b.{0,80}\?"
        r"|what if|i'd like to know|vermutlich|vielleicht|peut-\u00eatre|quiz\u00e1s?)\b"
        r"|\u6000\u7591|\u53ef\u80fd|\u662f\u4e0d\u662f|\u304b\u3082"
    ),
    "advice": (
        r"^\W*(?:\d+[.)]\s*)?(?:please |then |also |first |next,? |now )?(?:run|check|verify|ensure"
        r"|make sure|install|use"
        r"|set|add|enable|disable|load|try|see|note|consider|remember|confirm|do not|don't|never"
        r"|always)\b"
        r"|\b(?:you (?:can|may|might|should|must|need|have to|will|would|could)|should\b|must be"
        r"|needs? to be|it"
        r" is recommended"
        r"|we recommend|is (?:required|supported|recommended)|are (?:required|supported))\b"
        r"|\b(?:every|any) (?:further|later|subsequent|new|other) \w+|\beach (?:further|later|subsequent"
        r"|new) \w+"
        r"|\b(?:if|when|unless|in case) (?:you|your)\b|^\W*(?:if|in case)\b"
    ),
    "remedy": (
        r"\b(?:should|will|would|may|might|could) (?:fix|resolve|solve|cure|help|do)\b"
        r"|^\W*(?:(?:please|maybe|ok|so|then|you (?:can|could|may|should)) )?(?:just|simply|try(?:ing)?)"
        r"(?: to| with)? (?:(?:re)?(?:load|install|set|unset|disabl|enabl|add|remov|start|build|upgrad|updat"
        r"|mount|run|us)\w*|`)"
        r"|^\W*to (?:fix|solve|resolve|enable|avoid|make|get|use)\b.{0,80}(?:need|have to|must"
        r"|should|load|set|install|run)"
        r"|\b(?:is|are|was|were) needed (?:when|if|for|to|here)\b|^\W*needs? to (?:use|set|load|install)\b"
        r"|\u8981(?:\u542f\u7528|\u4f7f\u7528|\u89e3\u51b3).{0,40}\u9700\u8981"
    ),
    "plan": (
        r"\bcan (?:interfere|cause|lead|result|break|prevent|reduce|block)\b|"
        r"\b(?:not|n't)\b.{0,24}\byet\b|\b(?:plan|planning|going|intend|about|want|would like) to\b"
        r"|\bwill (?:soon|later|then)\b"
        r"|\b(?:this|the) (?:PR|patch|commit|change|pull request) (?:adds?|introduces?|implements?|allows?"
        r"|enables?)\b"
        r"|\b(?:no longer|not|never|n't) (?:be |any ?more )?(?:need|requir|necessar)\w*"
        r"|\boptional(?:ly)?\b"
        r"|\u8ba1\u5212|\u5c06\u8981|\u4e0d\u9700\u8981|\u65e0\u9700"
    ),
    "change": (
        r"^\W*(?-i:fix|feat|docs?|chore|refactor|perf|ci|build|test)(?:\([^()]{1,40}\))?!?: |"
        r"^\W*(?:\[[^\]]{1,40}\]\W*|[\w/.-]{2,30}(?:\([\w/., -]{1,30}\))?!?: )*"
        r"(?:add|allow|avoid|bump|change|clarify|convert|deprecate|document|drop|enable|expose"
        r"|extend|fall back|fix|fixe|handle|implement"
        r"|improve|introduce|make|mention|migrate|move|port|prefer|provide|refactor|remove|rename"
        r"|replace"
        r"|revert|rework|simplify|split|support|switch|unify|update|upgrade|use|wire)s?\b(?! ?[:=])"
        r"|^\W*added\b"
    ),
    "problem": r"^\W*(?:the )?(?:problem|issue|symptoms?|bug|root[- ]cause|what happened|motivation)\W*$",
    "futile": (
        r"\bno (?:change|effect|difference|luck|success|improvement|help)\b|\bwithout (?:success"
        r"|effect|any (?:change|effect))"
        r"|\b(?:should|would)(?: not|n't) be (?:an?|the) (?:issue|problem|cause|reason)\b"
        r"|\bcan be (?:safely )?ignored\b"
        r"|\bto no avail\b|\bin vain\b|\bma(?:de|kes) no\b|\b(?:do|did|does)(?: not|n't) (?:help"
        r"|change|matter|fix|solve|resolve|make)\b"
        r"|(?:is|was|are|were)(?: not|n't) (?:the (?:problem|cause|issue|reason))"
        r"|\bnothing changed\b|\bsame (?:error|result|problem|issue)\b"
        r"|\bbut\b.{0,80}\b(?:anyway|nevertheless|regardless)\b|\b[A-Z_]{4,}=\S+ (?:is |does "
        r"|did )?(?:not|n't) (?:work|tak|honou?r|respect|appl)"
        r"|\bhelp(?:ed|s)? nothing\b|\u6ca1\u6709?\u7528|\u65e0\u6548|\u4e0d\u8d77\u4f5c\u7528"
        r"|\u6ca1\u6709\u6548\u679c"
    ),
    "attempt": (
        r"\bwork-?arounds?\b|\bwhat (?:I|we)(?:'ve| have)? (?:already )?tried\b|\battempts?\b"
        r"|\btest plan\b"
        r"|\bsteps taken\b"
        r"|\balternatives?\b|\bexpected\b"
    ),
    "release": r"\brelease notes\b|\breleases? v?\d|\bchange ?log\b|\bwhat'?s (?:new|changed)\b",
    "symptom": (
        r"fail|error|crash|hang|\bhung\b|stuck|slow|not work|n't work|unable|cannot|can't"
        r"|could ?n[o']t|refus|reject|missing"
        r"|\blost\b|problem|issue|\bbug\b|disap+ear|wrong|\bdrop|degrad|abort|segfault"
        r"|time[ds]? ?out|timeout|kill|broken?|unexpected"
        r"|\b(?:not|n't|no|never) (?:\w+ ){0,3}(?:found|detected|loaded|show\w*|set ?up|used"
        r"|supported|available"
        r"|enabled|see|appear|reach|visible|start)"
        r"|unhealthy|false (?:positive|alarm)|invisible|unvisible"
        r"|disabled|only \d|gdr=.?0|low (?:band|perf|through)|bad |poor |stop|invalid|den(?:y|ied)"
        r"|exhaust|unsupported|\bempty\b|\bhalf\b|fall(?:s|ing)? ?back|\bno (?:HCA|device|NIC|GPU"
        r"|IB|RDMA|GDR)"
        r"|too (?:small|low|old|large)|(?-i:\bE(?:NO|IN|FA)[A-Z])"
        r"|\u5931\u8d25|\u62a5\u9519|\u65e0\u6cd5|\u4e0d\u80fd|\u9519\u8bef|\u95ee\u9898"
        r"|\u6ca1\u6709|\u7981\u7528|\u5f02\u5e38"
        r"|\u30a8\u30e9\u30fc|\u5931\u6557|\uc2e4\ud328|\uc624\ub958|Fehler|erreur|\u00e9chou|fallo"
        r"|falla|\u043e\u0448\u0438\u0431"
    ),
}

_ASIDE = re.compile(r"\([^()]{0,200}\)")
"""An aside: a doubt in it is not about the sentence."""


_ONSET = re.compile(
    r"(?:(?<!no longer )(?<!not )(?<!n't )(?<!never )\b(?:fail(?:s|ed|ing)?|crash(?:es|ed)?|hangs?|hung"
    r"|stop(?:s|ped)?|broke|slow(?:er)?|(?:cannot|can't|unable to|not|n't)"
    r"(?! (?:\w+ )?(?:fail|crash|hang|occur|happen|appear|show|reproduce)))\b[^.;,!?]{0,60}?)"
    r"\b(?:after|since)\b",
    re.IGNORECASE,
)
"""Where a sentence says since when something fails: no change that helped."""


_HELP = re.compile(
    r"[,;:.!]? *(?:what (?:can|should|could) (?:I|we) do|any (?:idea|help|hint|advice)s?"
    r"|how (?:do|can|to|should) (?:(?:I|we) )?(?:fix|solve|resolve|do)\b[^?]{0,60}|why)\?\s*$",
    re.IGNORECASE,
)
"""A call for help at the end: it does not make what is said before a question."""


def names_a_cause(text: str) -> bool:
    """Whether a sentence says what the cause was, or what cured the problem."""
    return outcomes.is_good(_ONSET.sub("", text)) or names_in_words(text)


def names_in_words(text: str) -> bool:
    """The same, by the sentence's own words, and not by a change after which something was good."""
    text = _ONSET.sub("", text)
    return any(_compiled(name).search(text) for name in ("found", "cured"))


def names_the_cause(text: str) -> bool:
    """Whether a sentence says in so many words that it names the cause."""
    return _compiled("root").search(text) is not None


def is_definite(text: str) -> bool:
    """Whether a sentence says that something was the cause or the cure, not only what follows from what."""
    text = _ONSET.sub("", text)
    return outcomes.is_good(text) or _compiled("definite").search(text) is not None


def is_request(text: str) -> bool:
    """Whether a title asks for a feature, for documentation, or for an opinion."""
    return _compiled("request").search(text) is not None


def is_general(text: str) -> bool:
    """Whether a sentence says how things are in general, elsewhere or formerly, or what a document says."""
    if _compiled("loosely").search(text) and not _compiled("observed").search(text):
        return True
    return _compiled("general").search(text) is not None


def is_habit(text: str) -> bool:
    """Whether a sentence says what a symptom usually means, and nothing about what its writer saw."""
    return _compiled("habit").search(text) is not None and _compiled("observed").search(text) is None


def says_what_follows(text: str) -> bool:
    """Whether a sentence says what follows from what."""
    return _compiled("follows").search(text) is not None


def is_guess(text: str) -> bool:
    """Whether a sentence asks or supposes."""
    return _compiled("guess").search(_HELP.sub("", _ASIDE.sub("", text))) is not None


def is_instruction(text: str) -> bool:
    """Whether a sentence tells a reader what to do, or what holds in general."""
    return _compiled("advice").search(text) is not None


def is_remedy(text: str) -> bool:
    """Whether a sentence says what would cure the problem, without saying that it did."""
    return _compiled("remedy").search(text) is not None


def is_plan(text: str) -> bool:
    """Whether a sentence says what is to come, or is not needed: no state of a machine that fails."""
    return _compiled("plan").search(text) is not None


def is_change(text: str) -> bool:
    """Whether a title announces a change to a program, in the form of commits: "Support X", "ib: add Y"."""
    return _compiled("change").search(text) is not None


def is_problem(heading: str) -> bool:
    """Whether a heading announces a problem: a change that solves it reports it there."""
    return _compiled("problem").search(heading) is not None


def is_futile(text: str) -> bool:
    """Whether a sentence says that what was done, or is set, had no effect."""
    return _compiled("futile").search(text) is not None


def is_attempt(heading: str) -> bool:
    """Whether a heading announces what was tried, or avoids the problem, and not what is the case."""
    return _compiled("attempt").search(heading) is not None


def is_release(heading: str) -> bool:
    """Whether a heading announces the changes of a release: what they name was fixed there."""
    return _compiled("release").search(heading) is not None


def is_symptom(text: str) -> bool:
    """Whether a sentence says that something does not work as it should."""
    return _compiled("symptom").search(text) is not None
