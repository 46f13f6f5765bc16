"""Price files are read strictly: a price that is guessed is no price."""

from pathlib import Path
from typing import Any

import pytest

from pulumi_infercrane.guard.collect import CollectError
from pulumi_infercrane.guard.collect.bounds import Bounds, paid_seconds
from pulumi_infercrane.guard.collect.prices import load_prices
from tests.guard.collect.scripted import target_of

PRICES = """\
schema: infercrane.prices/v1
currency: USD
date: 2026-11-30
source: https://example.com/pricing
prices:
  - {provider: aws, region: us-east-1, accelerator: L40S, per_gpu_hour: 1.5}
  - {provider: aws, accelerator: L40S, per_gpu_hour: 2}
"""


def target(**changes: Any) -> Any:
    accelerator = {"vendor": "nvidia", "sku": "L40S", "count": 2}
    return target_of("r2", "http://127.0.0.1:1", **{"provider": "aws", "accelerator": accelerator, **changes})


@pytest.fixture
def prices(tmp_path: Path) -> Path:
    path = tmp_path / "prices.yaml"
    path.write_text(PRICES)
    return path


def test_a_region_with_a_price_of_its_own_has_that_one(prices: Path) -> None:
    listed = load_prices(prices)
    assert (listed.currency, listed.date, listed.source) == ("USD", "2026-11-30", "https://example.com/pricing")
    assert listed.per_hour(target(region="us-east-1")) == 3.0
    assert listed.per_hour(target(region="eu-west-1")) == 4.0


def test_what_has_no_price_is_not_free(prices: Path) -> None:
    with pytest.raises(CollectError, match="no price of accelerator 'L40S' at provider 'gcp', region 'local'"):
        load_prices(prices).per_hour(target(provider="gcp"))
    with pytest.raises(CollectError, match="count is 0, so it cannot be priced"):
        load_prices(prices).per_hour(target(accelerator={"vendor": "nvidia", "sku": "L40S", "count": 0}))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("v1", "v2", "prices.yaml:1: schema must be infercrane.prices/v1"),
        ("USD", "usd", "prices.yaml:2: currency: 'usd' is not a code of three capital letters"),
        ("2026-11-30", "30.11.2026", "prices.yaml:3: date: '30.11.2026' is not a date like 2026-11-30"),
        ("2026-11-30", "20261130", "prices.yaml:3: date: '20261130' is not a date"),
        ("per_gpu_hour: 2}", "per_hour: 2}", "prices.yaml:7: unknown key 'per_hour', did you mean 'per_gpu_hour'"),
        ("hour: 2}", "hour: 0}", "prices.yaml:7: per_gpu_hour: nothing is free"),
        ("hour: 2}", "hour: .inf}", "prices.yaml:7: per_gpu_hour"),
        ("hour: 2}", "hour: -1}", "prices.yaml:7: per_gpu_hour: -1 is not between"),
        ("region: us-east-1, ", "", "prices.yaml:7: accelerator 'L40S' is priced twice"),
        ("source: https://example.com/pricing\n", "", "prices.yaml:1: the price file: 'source' is missing"),
        (PRICES[PRICES.index("prices:\n") :], "prices: []\n", "prices.yaml:5: prices: at least one price is needed"),
    ],
)
def test_errors_name_the_line(prices: Path, old: str, new: str, message: str) -> None:
    prices.write_text(PRICES.replace(old, new))
    with pytest.raises(CollectError) as raised:
        load_prices(prices)
    assert message in str(raised.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CollectError, match="the price file cannot be read: there is no such file"):
        load_prices(tmp_path / "none.yaml")


def test_money_is_time_of_everything_that_runs(prices: Path) -> None:
    candidate, baseline = target(region="us-east-1"), target()
    assert paid_seconds(Bounds(max_cost=3.5, prices=prices), candidate, baseline) == pytest.approx(1800)
    assert paid_seconds(Bounds(prices=prices), candidate, baseline) == float("inf")


def test_bounds_make_sense(prices: Path) -> None:
    with pytest.raises(CollectError, match="max_cost needs a price file"):
        Bounds(max_cost=1.0)
    with pytest.raises(CollectError, match="must be positive"):
        Bounds(max_cost=0.0, prices=prices)
