"""source.py -- a file of C or Lua as tokens, and its functions by name: finds the text of a mutant.

White space, line breaks and comments separate tokens, and make no difference.
"""
import collections
import re

Token = collections.namedtuple("Token", "text begin end directive")
STRING = r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\''
WORD = r"[A-Za-z_]\w*|\d(?:[eEpP][+-]|[\w.])*"
C = re.compile(r"(?P<gap>\s+|/\*.*?\*/|//[^\n]*)|%s|%s|<<=|>>=|\.\.\.|->|\+\+|--|<<|>>|&&|\|\||##|[-+*/%%&|^=!<>]=|." %
               (STRING, WORD), re.S)
LUA = re.compile(r"(?P<gap>\s+|--\[\[.*?\]\]|--[^\n]*)|\[\[.*?\]\]|%s|%s|\.\.\.?|[~=<>]=|::|." % (STRING, WORD), re.S)
DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\n|/\*.*?\*/|[^\n])*", re.M | re.S)
LUA_FUNCTION = re.compile(r"^(?:local )?function (\w+).*?^end\b", re.M | re.S)


class Missing(Exception):
    pass


class Source:
    def __init__(self, text, is_lua):
        self.text, self.is_lua = text, is_lua
        self.tokens = tokens_of(text, is_lua)
        self.places = lua_places(self) if is_lua else c_places(self)

    def find(self, where, old):
        """(first, behind) of each place in `where` that has the tokens of `old`; in the whole file where it is ""."""
        words = [t.text for t in tokens_of(old, self.is_lua)]
        if not words:
            raise Missing("no text")
        ranges = self.places[where] if where else [(0, len(self.tokens))]
        if where and not ranges:
            raise Missing("nothing is called %s" % where)
        found = []
        for first, behind in ranges:
            for at in range(first, behind - len(words) + 1):
                if all(self.tokens[at + i].text == word for i, word in enumerate(words)):
                    found.append((at, at + len(words)))
        return found

    def exchange(self, where, old, new):
        """The text with `new` in place of `old`, which must be there once."""
        found = self.find(where, old)
        if len(found) != 1:
            raise Missing("has the text %d times" % len(found))
        if [t.text for t in tokens_of(old, self.is_lua)] == [t.text for t in tokens_of(new, self.is_lua)]:
            raise Missing("is not changed")
        first, behind = found[0]
        return apart(apart(self.text[:self.tokens[first].begin], new), self.text[self.tokens[behind - 1].end:])


def apart(before, after):
    """Both in a row, with a space where the last token of the one and the first of the other could become one."""
    alone = r"[\s(){}\[\],;]"
    if before and after and not re.match(alone, before[-1]) and not re.match(alone, after[0]) and \
            bool(re.match(r"\w", before[-1])) == bool(re.match(r"\w", after[0])):
        return before + " " + after
    return before + after


def source_of(path):
    with open(path) as f:
        return Source(f.read(), path.endswith(".lua"))


def tokens_of(text, is_lua):
    lines = [] if is_lua else [m.span() for m in DIRECTIVE.finditer(text)]
    found, n = [], 0
    for m in (LUA if is_lua else C).finditer(text):
        if m.lastgroup == "gap":
            continue
        while n < len(lines) and lines[n][1] <= m.start():
            n += 1
        directive = n < len(lines) and lines[n][0] <= m.start()
        found.append(Token(m.group(), m.start(), m.end(), n + 1 if directive else 0))
    return found


def lua_places(source):
    """{name: [(first, behind)]} of the functions that begin and end at the left margin."""
    places, starts = collections.defaultdict(list), [t.begin for t in source.tokens]
    for m in LUA_FUNCTION.finditer(source.text):
        inside = [i for i, begin in enumerate(starts) if m.start() <= begin < m.end()]
        places[m.group(1)].append((inside[0], inside[-1] + 1))
    return places


def c_places(source):
    """
    {name: [(first, behind)]} of all named things at the outermost level: functions with the words before their name,
    tables, types and macros.
    """
    places, tokens = collections.defaultdict(list), source.tokens
    first, name, depth, seen = None, None, 0, ""
    for i, t in enumerate(tokens):
        if t.directive:
            if i == 0 or tokens[i - 1].directive != t.directive:
                last = i
                while last + 1 < len(tokens) and tokens[last + 1].directive == t.directive:
                    last += 1
                if last >= i + 2 and tokens[i + 1].text == "define":
                    places[tokens[i + 2].text].append((i, last + 1))
            continue
        first = i if first is None else first
        if depth == 0 and name is None and t.text in ("(", "[", "=", "{", ";") and is_name(seen):
            name = seen
        if t.text in "([{":
            is_body = depth == 0 and t.text == "{" and seen == ")"
            depth += 1
            function = is_body if depth == 1 else function
        elif t.text in ")]}":
            depth -= 1
        if depth == 0 and (t.text == ";" or (t.text == "}" and function)):
            if name is not None:
                places[name].append((first, i + 1))
            first, name = None, None
        if not (t.text.startswith("__") and depth == 0):
            seen = t.text
    return places


def is_name(text):
    return re.match(r"[A-Za-z_]", text) is not None and text not in ("enum", "struct", "union")
