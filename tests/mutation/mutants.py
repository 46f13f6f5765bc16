"""The mutants of a module: its source with one expression or statement changed, each compiled.

What is changed can turn a verdict, a number or a reason code around: comparisons and their boundaries, arithmetic,
constants, conditions and their parts, `min`/`max`, `any`/`all`, order, returned values, statements that are left out.
Sentences for people, annotations and docstrings are left alone.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any

MODULE_LEVEL = "<module>"
"""Where a mutant is that no function contains: it takes effect at import only."""

_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
_CALLS = {
    "min": "max",
    "max": "min",
    "any": "all",
    "all": "any",
    "sorted": "list",
    "ceil": "floor",
    "floor": "ceil",
    "minimum": "maximum",
    "maximum": "minimum",
}
_CODE = re.compile(r"[\w.:/<>-]*")
"""A string that names something: a reason code, a field, an id. Any other is a sentence."""
_LEFT_ALONE = {"annotation", "returns", "decorator_list", "type_params"}


@dataclass(frozen=True)
class Mutant:
    """One change. `name` tells it from all others of its module and survives edits elsewhere in the file."""

    name: str
    function: str
    """Qualified name of the outermost function around it, or MODULE_LEVEL."""
    lines: range
    code: CodeType
    """The whole module with the change."""


@dataclass(frozen=True)
class _Site:
    """A place in the tree: a field of a node, or one element of it."""

    parent: ast.AST
    field: str
    index: int | None
    function: str

    @property
    def node(self) -> Any:
        value = getattr(self.parent, self.field)
        return value if self.index is None else value[self.index]

    def put(self, node: ast.AST) -> None:
        if self.index is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.index] = node


def mutants(path: Path) -> Iterator[Mutant]:
    """All mutants of a source file, in its order."""
    source = path.read_text()
    lines = source.splitlines()
    tree = ast.parse(source)
    seen: Counter[str] = Counter()
    for site in list(_sites(tree, MODULE_LEVEL)):
        original = site.node
        at = range(original.lineno, (original.end_lineno or 0) + 1)
        for changed in _alternatives(site):
            name = f"{site.function} | {lines[at[0] - 1].strip()} | {_words(original)} -> {_words(changed)}"
            seen[name] += 1
            ordinal = f" #{seen[name]}" if seen[name] > 1 else ""
            site.put(ast.fix_missing_locations(ast.copy_location(changed, original)))
            yield Mutant(name + ordinal, site.function, at, compile(tree, str(path), "exec", dont_inherit=True))
            site.put(original)


def _words(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 80 else text[:77] + "..."


def _sites(node: ast.AST, function: str) -> Iterator[_Site]:
    inside = _inside(node, function)
    for field, value in ast.iter_fields(node):
        if field in _LEFT_ALONE:
            continue
        scope = function if field == "args" else inside  # defaults are made where the function is
        children = enumerate(value) if isinstance(value, list) else [(None, value)]
        for index, child in children:
            if isinstance(child, ast.expr | ast.stmt) and not _is_left_alone(child):
                yield _Site(node, field, index, scope)
                yield from _sites(child, scope)
            elif isinstance(
                child, ast.comprehension | ast.keyword | ast.arguments | ast.match_case | ast.ExceptHandler
            ):
                yield from _sites(child, scope)


def _is_left_alone(node: ast.AST) -> bool:
    match node:
        case ast.Expr(value=ast.Constant()) | ast.JoinedStr() | ast.Import() | ast.ImportFrom():
            return True
        case ast.Assign(targets=[ast.Name(id="__all__")]):  # for readers and `import *`
            return True
        case ast.Subscript(value=ast.Name(id="Literal")) | ast.Call(func=ast.Name(id="cast")):
            return True
    return False


def _inside(node: ast.AST, function: str) -> str:
    """The name of the outermost function: what is nested in one is swapped together with it."""
    scope, _, name = function.rpartition(MODULE_LEVEL)
    if isinstance(node, ast.FunctionDef) and function.endswith(MODULE_LEVEL):
        return scope + node.name
    if isinstance(node, ast.ClassDef) and function.endswith(MODULE_LEVEL):
        return f"{scope}{node.name}.{MODULE_LEVEL}"
    return name or function


# --- what becomes of a node -------------------------------------------------------------------------------------


def _alternatives(site: _Site) -> Iterator[ast.AST]:
    if _is_condition(site):
        yield ast.Constant(True)
        yield ast.Constant(False)
    match site.node:
        case ast.Compare() as node:
            yield from _compared_otherwise(node)
        case ast.BinOp(op=op) as node if type(op) in _ARITHMETIC:
            yield ast.BinOp(node.left, _ARITHMETIC[type(op)](), node.right)
        case ast.BoolOp() as node:
            yield from _joined_otherwise(node)
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            yield operand
        case ast.IfExp(body=body, orelse=orelse):
            yield body
            yield orelse
        case ast.Constant(value=value):
            yield from _other_constants(value)
        case ast.Call() as node:
            yield from _other_calls(node)
        case ast.List() | ast.Tuple() | ast.Set() as node:
            yield from _without_a_part(node)
        case ast.Return(value=ast.expr() as value) if ast.unparse(value) != "None":
            yield ast.Return(ast.Constant(None))
        case ast.Expr() | ast.Raise() | ast.AugAssign() | ast.Continue() | ast.Break():
            yield ast.Pass()


def _is_condition(site: _Site) -> bool:
    if isinstance(site.parent, ast.comprehension):
        return site.field == "ifs"
    return site.field == "test" and isinstance(site.parent, ast.If)


def _compared_otherwise(node: ast.Compare) -> Iterator[ast.AST]:
    for index, op in enumerate(node.ops):
        for other in _COMPARISONS[type(op)]:
            ops = [*node.ops[:index], other(), *node.ops[index + 1 :]]
            yield ast.Compare(node.left, ops, node.comparators)


def _joined_otherwise(node: ast.BoolOp) -> Iterator[ast.AST]:
    yield ast.BoolOp(ast.And() if isinstance(node.op, ast.Or) else ast.Or(), node.values)
    for index in range(len(node.values)):
        rest = [*node.values[:index], *node.values[index + 1 :]]
        yield rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)


def _other_constants(value: object) -> Iterator[ast.AST]:
    if isinstance(value, bool):
        yield ast.Constant(not value)
    elif isinstance(value, int):
        yield ast.Constant(value + 1)
    elif isinstance(value, float):
        yield ast.Constant(value * 1.25 if value else 0.25)
    elif isinstance(value, str) and _CODE.fullmatch(value):
        yield ast.Constant(value + "_mutated")


def _other_calls(node: ast.Call) -> Iterator[ast.AST]:
    match node.func:
        case ast.Name(id=name) if name in _CALLS:
            keywords = [] if name == "sorted" else node.keywords
            yield ast.Call(ast.Name(_CALLS[name], ast.Load()), node.args, keywords)
        case ast.Name(id="abs"):
            yield node.args[0]
        case ast.Attribute(value=value, attr=name) if name in _CALLS:
            yield ast.Call(ast.Attribute(value, _CALLS[name], ast.Load()), node.args, node.keywords)


def _without_a_part(node: ast.List | ast.Tuple | ast.Set) -> Iterator[ast.AST]:
    """`[*findings, *replaced]` without one of the two."""
    for index, part in enumerate(node.elts):
        if isinstance(part, ast.Starred):
            rest = [*node.elts[:index], *node.elts[index + 1 :]]
            yield ast.Set(rest) if isinstance(node, ast.Set) else type(node)(rest, ast.Load())
