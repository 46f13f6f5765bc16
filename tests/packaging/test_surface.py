"""What each package offers by name, and how it fails."""

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from types import ModuleType

import pytest

from tests.packaging.environments import PACKAGES


def submodules(package: str) -> Iterator[ModuleType]:
    root = importlib.import_module(package)
    yield root
    for module in pkgutil.walk_packages(root.__path__, f"{package}."):
        yield importlib.import_module(module.name)


def error_classes(package: str) -> set[type[Exception]]:
    """Public exception classes defined in a package."""
    return {
        member
        for module in submodules(package)
        for name, member in inspect.getmembers(module, inspect.isclass)
        if issubclass(member, Exception) and member.__module__.startswith(package) and not name.startswith("_")
    }


@pytest.mark.parametrize("package", PACKAGES)
def test_public_names_are_sorted_and_importable(package: str) -> None:
    module = importlib.import_module(package)
    assert list(module.__all__) == sorted(module.__all__)
    assert [name for name in module.__all__ if not hasattr(module, name)] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_public_names_are_documented(package: str) -> None:
    module = importlib.import_module(package)
    assert module.__doc__
    offered = {name: getattr(module, name) for name in module.__all__}
    described = {name for name, value in offered.items() if not callable(value) or value.__doc__}
    assert set(offered) - described == set()


@pytest.mark.parametrize("package", PACKAGES)
def test_errors_form_one_tree(package: str) -> None:
    errors = error_classes(package)
    roots = {error.__name__ for error in errors if not any(base in errors for base in error.__bases__)}
    assert len(roots) == 1, roots


def test_every_error_has_a_code_of_its_own() -> None:
    errors = [error for package in PACKAGES for error in error_classes(package)]
    without = [error.__qualname__ for error in errors if not isinstance(vars(error).get("code"), str)]
    assert without == []
    codes = [vars(error)["code"] for error in errors]
    assert sorted(codes) == sorted(set(codes))
