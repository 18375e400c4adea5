"""Small changes of the meaning of Python source, found in its syntax tree and applied to its text.

Left out: docstrings, annotations, type aliases, `__repr__`, assertions, log calls, blocks for the type
checker, decorators and class keywords, text that is only shown, and durations (no test measures time).
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

_PAIRS: list[tuple[type[ast.AST], type[ast.AST]]] = [
    (ast.Eq, ast.NotEq), (ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Is, ast.IsNot), (ast.In, ast.NotIn),
    (ast.And, ast.Or), (ast.Add, ast.Sub), (ast.Mult, ast.FloorDiv), (ast.LShift, ast.RShift),
    (ast.BitAnd, ast.BitOr),
]  # fmt: skip
SWAPPED = {one: other for pair in _PAIRS for one, other in (pair, pair[::-1])} | {ast.Div: ast.Mult}
SWAPPED_CALLS = {"any": "all", "all": "any", "min": "max", "max": "min"}
ASKS = {
    "startswith", "endswith", "removeprefix", "removesuffix", "split", "rsplit", "partition", "get",
}  # fmt: skip
"""Methods whose first argument decides; a string elsewhere is mostly text that is shown."""
DURATION = re.compile(r"(_s|seconds?|timeout|deadline|interval|pause|delay|grace)$", re.IGNORECASE)
UNTOUCHED_FUNCTIONS = {"__repr__", "__str__", "__rich__"}
UNTOUCHED_CALLS = {"cast", "sleep", "TypeVar", "NewType", "isinstance", "issubclass", "assert_never", "log"}
SYMMETRIC = {"compare_digest", "min", "max", "zip", "gcd", "lcm", "samefile"}
FIXED_KEYWORDS = {"strict", "check", "errors", "encoding", "help", "hint", "maxsize", "flush", "text"}


@dataclass(frozen=True)
class Mutation:
    """One change: the lines and columns (in bytes) that are replaced, and by what."""

    line: int
    column: int
    end_line: int
    end_column: int
    new: str
    kind: str
    function: str
    """The qualified name of the function; "" for what runs at import."""

    def apply(self, source: str) -> str:
        lines = source.encode().splitlines(keepends=True)
        head = b"".join(lines[: self.line - 1]) + lines[self.line - 1][: self.column]
        tail = lines[self.end_line - 1][self.end_column :] + b"".join(lines[self.end_line :])
        return (head + self.new.encode() + tail).decode()


def mutations(source: str) -> list[Mutation]:
    """All changes of a source, in the order of its text; `changed_by` says which of them are real."""
    found = []
    for function, node, new, kind in _Finder().found_in(ast.parse(source)):
        text = ast.unparse(new)
        text = f"({text})" if isinstance(new, ast.expr) else text
        assert isinstance(node, ast.expr | ast.stmt)
        end = (node.end_lineno or node.lineno, node.end_col_offset or 0)
        found.append(Mutation(node.lineno, node.col_offset, *end, text, kind, function))
    return sorted(found, key=lambda row: (row.line, row.column, row.kind, row.new))


def changed_by(mutation: Mutation, source: str) -> str | None:
    """The changed source; None if it does not parse, or to the same syntax tree."""
    changed = mutation.apply(source)
    try:
        differs = ast.dump(ast.parse(changed)) != ast.dump(ast.parse(source))
    except SyntaxError:
        return None
    return changed if differs else None


Found = tuple[str, ast.AST, ast.AST, str]


class _Finder:
    """Walks a tree, and yields function, node, replacement and kind."""

    def __init__(self) -> None:
        self.scope: list[str] = []
        self.depth = 0  # of functions

    def found_in(self, node: ast.AST) -> Iterator[Found]:
        if _is_untouched(node):
            return
        named = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        runs = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            self.scope.append(node.name)
        self.depth += runs
        for old, new, kind in _FINDERS.get(type(node), _nothing)(node):
            yield ".".join(self.scope) if self.depth else "", old, new, kind
        for child in _children(node):
            yield from self.found_in(child)
        self.depth -= runs
        if named:
            self.scope.pop()


def _is_untouched(node: ast.AST) -> bool:
    match node:
        case (
            ast.Import() | ast.ImportFrom() | ast.Assert() | ast.JoinedStr() | ast.Global() | ast.Nonlocal()
        ):
            return True
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return node.name in UNTOUCHED_FUNCTIONS
        case ast.If(test=test):
            return "TYPE_CHECKING" in ast.unparse(test) or "__name__" in ast.unparse(test)
        case ast.Call(func=func):
            return _called(func) in UNTOUCHED_CALLS
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name == "__all__" or bool(DURATION.search(name)) or _is_alias(name, node.value)
        case ast.AnnAssign(target=ast.Name(id=name)):
            return bool(DURATION.search(name))
        case ast.keyword():
            return node.arg is not None and (node.arg in FIXED_KEYWORDS or bool(DURATION.search(node.arg)))
        case ast.Expr(value=ast.Constant()):
            return True  # a docstring
    return False


def _is_alias(name: str, value: ast.expr) -> bool:
    """Whether an assignment names a type: `Row = tuple[str, int]`, `Any = A | B`."""
    parts = value.left if isinstance(value, ast.BinOp) and isinstance(value.op, ast.BitOr) else value
    return name[:1].isupper() and not name.isupper() and isinstance(parts, ast.Subscript | ast.BinOp)


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes below, without annotations, decorators, and keywords of classes."""
    left_out: list[ast.AST | None] = []
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        # a rule's decorator holds what the rule says; other decorators with constants are caches
        left_out = [node.returns, *(row for row in node.decorator_list if not _is_rule(row))]
    elif isinstance(node, ast.arguments):
        positional = zip(reversed(node.args), reversed(node.defaults), strict=False)
        named = zip(node.kwonlyargs, node.kw_defaults, strict=True)
        left_out = [value for argument, value in (*positional, *named) if DURATION.search(argument.arg)]
    elif isinstance(node, ast.ClassDef):
        left_out = [*node.decorator_list, *node.keywords, *node.bases]
    elif isinstance(node, ast.AnnAssign | ast.arg):
        left_out = [node.annotation]
    yield from (child for child in ast.iter_child_nodes(node) if child not in left_out)


def _is_rule(decorator: ast.AST) -> bool:
    return isinstance(decorator, ast.Call) and _called(decorator.func) == "rule"


def _called(func: ast.AST) -> str:
    return func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")


def _with(node: ast.AST, **fields: object) -> ast.AST:
    new = copy.deepcopy(node)
    for name, value in fields.items():
        setattr(new, name, value)
    return new


Changes = Iterator[tuple[ast.AST, ast.AST, str]]
"""Old node, new node, kind."""


def _nothing(node: ast.AST) -> Changes:
    return iter(())


def _comparisons(node: ast.Compare) -> Changes:
    for number, operator in enumerate(node.ops):
        ops = [*node.ops]
        ops[number] = SWAPPED[type(operator)]()  # type: ignore[call-overload]
        yield node, _with(node, ops=ops), "comparison"
    for side in (node.left, *node.comparators):
        if _is_text(side):
            yield side, _text(side), "string"


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)


def _text(node: ast.AST) -> ast.Constant:
    value = getattr(node, "value", "")
    return ast.Constant(value + b"~" if isinstance(value, bytes) else f"{value}~")


def _and_or(node: ast.BoolOp) -> Changes:
    yield node, _with(node, op=SWAPPED[type(node.op)]()), "and/or"
    for number in range(len(node.values)):
        left = node.values[:number] + node.values[number + 1 :]
        yield node, (left[0] if len(left) == 1 else _with(node, values=left)), "dropped operand"


def _arithmetic(node: ast.BinOp) -> Changes:
    sides = (node.left, node.right)
    shown = any(_is_text(side) or isinstance(side, ast.JoinedStr) for side in sides)
    if type(node.op) in SWAPPED and not shown:
        yield node, _with(node, op=SWAPPED[type(node.op)]()), "arithmetic"


def _dropped_not(node: ast.UnaryOp) -> Changes:
    if isinstance(node.op, ast.Not):
        yield node, node.operand, "dropped not"


def _constants(node: ast.Constant) -> Changes:
    if isinstance(node.value, bool):
        yield node, ast.Constant(not node.value), "constant"
    elif isinstance(node.value, int | float):
        yield node, ast.Constant(node.value + 1), "constant"
        if node.value:
            yield node, ast.Constant(node.value - 1), "constant"


def _conditions(node: ast.If | ast.While | ast.IfExp) -> Changes:
    """The negated condition, where no other change of it does the same."""
    if isinstance(node.test, ast.Name | ast.Call | ast.Attribute | ast.Subscript | ast.NamedExpr):
        yield node.test, ast.UnaryOp(ast.Not(), node.test), "negated condition"


def _filters(node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> Changes:
    for condition in (row for generator in node.generators for row in generator.ifs):
        if not any(isinstance(part, ast.NamedExpr) for part in ast.walk(condition)):
            yield condition, ast.Constant(True), "dropped filter"


def _calls(node: ast.Call) -> Changes:
    name = _called(node.func)
    if isinstance(node.func, ast.Name) and name in SWAPPED_CALLS:
        yield node.func, ast.Name(SWAPPED_CALLS[name]), "any/all/min/max"
    if isinstance(node.func, ast.Attribute) and name in ASKS and node.args and _is_text(node.args[0]):
        yield node.args[0], _text(node.args[0]), "string"
    plain = not any(isinstance(value, ast.Starred) for value in node.args[:2])
    if (
        len(node.args) >= 2
        and plain
        and name not in SYMMETRIC
        and ast.dump(node.args[0]) != ast.dump(node.args[1])
    ):
        yield node, _with(node, args=[node.args[1], node.args[0], *node.args[2:]]), "swapped arguments"


def _slices(node: ast.Subscript) -> Changes:
    if isinstance(node.slice, ast.Slice):
        for bound in ("lower", "upper"):
            if getattr(node.slice, bound) is not None:
                yield node, _with(node, slice=_with(node.slice, **{bound: None})), "slice"
    elif _is_text(node.slice) and isinstance(node.ctx, ast.Load):
        yield node.slice, _text(node.slice), "string"


def _returns(node: ast.Return) -> Changes:
    if node.value is not None and not isinstance(node.value, ast.Constant):
        yield node, _with(node, value=ast.Constant(None)), "returned None"


def _deleted(node: ast.stmt) -> Changes:
    match node:
        case ast.Expr(value=ast.Call() | ast.Await() | ast.Yield() | ast.YieldFrom()):
            yield node, ast.Pass(), "deleted statement"
        case ast.Raise() if node.exc is None or "Assertion" not in ast.unparse(node.exc):
            yield node, ast.Pass(), "deleted raise"
        case ast.AugAssign() | ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield node, ast.Pass(), "deleted statement"


def _jumps(node: ast.Continue | ast.Break) -> Changes:
    yield node, (ast.Break() if isinstance(node, ast.Continue) else ast.Continue()), "continue/break"


_FINDERS: dict[type[ast.AST], Callable[..., Changes]] = {
    ast.Compare: _comparisons, ast.BoolOp: _and_or, ast.BinOp: _arithmetic, ast.UnaryOp: _dropped_not,
    ast.Constant: _constants, ast.If: _conditions, ast.While: _conditions, ast.IfExp: _conditions,
    ast.ListComp: _filters, ast.SetComp: _filters, ast.GeneratorExp: _filters, ast.DictComp: _filters,
    ast.Call: _calls, ast.Subscript: _slices, ast.Return: _returns, ast.Expr: _deleted, ast.Raise: _deleted,
    ast.AugAssign: _deleted, ast.Assign: _deleted, ast.Continue: _jumps, ast.Break: _jumps,
}  # fmt: skip
