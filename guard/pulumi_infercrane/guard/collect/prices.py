"""Price files (`infercrane.prices/v1`, YAML or JSON): what an accelerator costs an hour, by whom, and since when."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from pulumi_infercrane.guard.collect.given_files import fields_of, load_file, unique
from pulumi_infercrane.guard.collect.target import CollectError, Target
from pulumi_infercrane.guard.policy_yaml import Node

SCHEMA = "infercrane.prices/v1"
MAX_PRICE = 10_000.0

_KEYS = ("schema", "currency", "date", "source", "prices")
_PRICE_KEYS = ("provider", "region", "accelerator", "per_gpu_hour")


@dataclass(frozen=True)
class Price:
    """One accelerator of a provider. An empty region is every region that has no price of its own."""

    provider: str
    region: str
    accelerator: str
    per_gpu_hour: float

    def place(self) -> tuple[str, str, str]:
        """What it is the price of."""
        return self.provider, self.region, self.accelerator


@dataclass(frozen=True)
class PriceList:
    """A price file. Money is in `currency`, a code of three letters; `date` is `YYYY-MM-DD`."""

    currency: str
    date: str
    source: str
    prices: tuple[Price, ...]

    def of(self, target: Target) -> Price:
        """The price of the accelerator a target runs on.

        Raises:
            CollectError: when the list has none.
        """
        subject = target.subject
        provider, region = str(subject["provider"]), str(subject.get("region", ""))
        sku = str(subject["accelerator"]["sku"])
        for wanted in (region, ""):
            for price in self.prices:
                if price.place() == (provider, wanted, sku):
                    return price
        raise CollectError(
            f"{target.label}: the price file has no price of accelerator {sku!r} at provider {provider!r}, "
            f"region {region!r}"
        )

    def per_hour(self, target: Target) -> float:
        """What one hour of a target costs, all its accelerators together."""
        return self.of(target).per_gpu_hour * gpu_count(target)


def gpu_count(target: Target) -> int:
    """How many accelerators a target runs on.

    Raises:
        CollectError: when it says none, so that it would cost nothing.
    """
    count = int(target.subject["accelerator"]["count"])
    if count < 1:
        raise CollectError(f"{target.label}: its accelerator count is {count}, so it cannot be priced")
    return count


def load_prices(path: Path) -> PriceList:
    """Read and check a price file.

    Raises:
        CollectError: `prices.yaml:7: unknown key 'per_hour', did you mean 'per_gpu_hour'?`
    """
    return load_file(path, "price file", _price_list)


def _price_list(root: Node) -> PriceList:
    fields = fields_of(root, SCHEMA, _KEYS)
    prices = tuple(unique(fields["prices"], _price, Price.place, "accelerator {0.accelerator!r} is priced twice"))
    if not prices:
        raise fields["prices"].error("prices: at least one price is needed")
    return PriceList(_currency(fields["currency"]), _date(fields["date"]), fields["source"].text(), prices)


def _price(node: Node) -> Price:
    fields: Mapping[str, Any] = node.mapping(_PRICE_KEYS, required=("provider", "accelerator", "per_gpu_hour"))
    per_gpu_hour = fields["per_gpu_hour"].number(0, MAX_PRICE)
    if not per_gpu_hour:
        raise fields["per_gpu_hour"].error("per_gpu_hour: nothing is free; write what it costs")
    region = fields["region"].text() if "region" in fields else ""
    return Price(fields["provider"].text(), region, fields["accelerator"].text(), per_gpu_hour)


def _currency(node: Node) -> str:
    text = node.text()
    if len(text) != 3 or not (text.isascii() and text.isalpha() and text.isupper()):
        raise node.error(f"currency: {text!r} is not a code of three capital letters, such as USD")
    return text


def _date(node: Node) -> str:
    text = node.text()
    try:
        written = date.fromisoformat(text).isoformat()
    except ValueError:
        written = ""
    if text != written:
        raise node.error(f"date: {text!r} is not a date like 2026-11-30")
    return text
