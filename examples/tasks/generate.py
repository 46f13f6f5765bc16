"""Write `basics.yaml`: small questions with one right answer, four kinds in turn, from a fixed start value."""

import json
import random
from pathlib import Path

TARGET = Path(__file__).with_name("basics.yaml")
START = 1
PER_KIND = 75

NUMBERS = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen
"""
WORDS = """
lantern bridge carpet engine forest garden hammer island jacket kettle ladder market needle orange pencil rabbit saddle
tunnel violin window anchor basket candle desert feather harbor jungle lemon mirror pepper ribbon spider temple valley
walnut yellow button circus dragon fabric guitar helmet insect jigsaw kitten lizard magnet napkin oyster parrot quiver
rocket silver ticket urchin velvet wizard zipper almond bamboo copper donkey falcon galaxy hermit icicle jersey keeper
locket monkey nectar office planet quartz raisin salmon tomato blanket chimney diamond lobster
"""
CAPITALS = """
France:Paris Italy:Rome Spain:Madrid Germany:Berlin Portugal:Lisbon Austria:Vienna Greece:Athens Poland:Warsaw
Hungary:Budapest Norway:Oslo Sweden:Stockholm Finland:Helsinki Denmark:Copenhagen Ireland:Dublin Belgium:Brussels
Switzerland:Bern Russia:Moscow Ukraine:Kyiv Turkey:Ankara Egypt:Cairo Morocco:Rabat Algeria:Algiers Tunisia:Tunis
Libya:Tripoli Kenya:Nairobi Ethiopia:Addis Uganda:Kampala Ghana:Accra Nigeria:Abuja Senegal:Dakar Angola:Luanda
Zambia:Lusaka Zimbabwe:Harare Namibia:Windhoek Japan:Tokyo China:Beijing India:Delhi Thailand:Bangkok Vietnam:Hanoi
Indonesia:Jakarta Philippines:Manila Nepal:Kathmandu Pakistan:Islamabad Bangladesh:Dhaka Iran:Tehran Iraq:Baghdad
Syria:Damascus Lebanon:Beirut Jordan:Amman Israel:Jerusalem Qatar:Doha Oman:Muscat Yemen:Sanaa Mongolia:Ulaanbaatar
Cuba:Havana Jamaica:Kingston Canada:Ottawa Peru:Lima Chile:Santiago Argentina:Buenos Brazil:Brasilia Colombia:Bogota
Ecuador:Quito Bolivia:Sucre Uruguay:Montevideo Paraguay:Asuncion Venezuela:Caracas Australia:Canberra
Romania:Bucharest Bulgaria:Sofia Serbia:Belgrade Croatia:Zagreb Slovenia:Ljubljana Slovakia:Bratislava Latvia:Riga
Lithuania:Vilnius Estonia:Tallinn Iceland:Reykjavik Albania:Tirana Cyprus:Nicosia Fiji:Suva Malta:Valletta
"""
OPPOSITES = """
hot:cold big:small up:down left:right day:night black:white fast:slow high:low old:young rich:poor wet:dry hard:soft
happy:sad light:dark open:closed full:empty early:late strong:weak long:short thick:thin wide:narrow loud:quiet
clean:dirty heavy:light love:hate win:lose buy:sell give:take push:pull start:stop begin:end before:after above:below
inside:outside north:south east:west true:false good:bad right:wrong near:far first:last always:never more:less
same:different sweet:sour tall:short deep:shallow rough:smooth sharp:dull brave:cowardly cheap:expensive easy:difficult
friend:enemy front:back future:past guilty:innocent heaven:hell import:export increase:decrease laugh:cry
maximum:minimum major:minor male:female man:woman boy:girl king:queen noisy:quiet odd:even optimist:pessimist
over:under positive:negative public:private question:answer safe:dangerous success:failure summer:winter top:bottom
victory:defeat war:peace warm:cool alive:dead
"""

Item = tuple[str, list[str]]


def sums(numbers: random.Random) -> list[Item]:
    pairs = [(a, b) for a in range(10) for b in range(10)]
    numbers.shuffle(pairs)
    words = NUMBERS.split()
    return [(f"What is {a} + {b}? Answer with one number.", [str(a + b), words[a + b]]) for a, b in pairs]


def repeats(numbers: random.Random) -> list[Item]:
    words = WORDS.split()
    numbers.shuffle(words)
    return [(f"Repeat this word exactly: {word}", [word]) for word in words]


def capitals(numbers: random.Random) -> list[Item]:
    pairs = [entry.split(":") for entry in CAPITALS.split()]
    numbers.shuffle(pairs)
    return [(f"What is the capital of {country}?", [capital]) for country, capital in pairs]


def opposites(numbers: random.Random) -> list[Item]:
    pairs = [entry.split(":") for entry in OPPOSITES.split()]
    numbers.shuffle(pairs)
    return [(f"What is the opposite of {word}?", [opposite]) for word, opposite in pairs]


def render() -> str:
    numbers = random.Random(START)  # noqa: S311 - a repeatable choice is the point
    kinds = [make(numbers)[:PER_KIND] for make in (sums, repeats, capitals, opposites)]
    items = [item for turn in zip(*kinds, strict=True) for item in turn]
    lines = [
        f"  - {{id: {number:04}, prompt: {json.dumps(prompt)}, expect: {json.dumps(expect)}}}"
        for number, (prompt, expect) in enumerate(items, start=1)
    ]
    head = ["# Written by generate.py.", "schema: infercrane.tasks/v1", "name: basics", "metric: contains"]
    return "\n".join([*head, "max_tokens: 12", "items:", *lines]) + "\n"


if __name__ == "__main__":
    TARGET.write_text(render())
