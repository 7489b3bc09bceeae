"""Readable, distinct titles for the demo's products, which come as shelf labels such as
SFT DRNK 2 LITER BTL CARB INCL / 2 L / National."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_WORDS = """
FRZN=Frozen FRZ=Frozen SFT=Soft DRNK=Drink DRNKS=Drinks DRNKING=Drinking DRNKNG=Drinking BTL=Bottle
CARB=Carbonated CRBNTD=Carbonated SNGL=Single SGL=Single SRV=Serve SV=Served SS=Single-Serve DNRS=Dinners
DNR=Dinner CHIX=Chicken CHICK=Chicken FRD=Fried PREP=Prepared FD=Food SW=Sweet GDS=Goods WHL=Whole CRMD=Creamed
FLVRD=Flavored FLVR=Flavored MNRL=Mineral MNERAL=Mineral WAT=Water WATE=Water JCE=Juice CONC=Concentrate
PNCH=Punch BRD=Breaded PORTON=Portion STK=Stick PREPCK=Prepacked PRPCK=Prepacked PREPACK=Prepacked
SAL=Salad DPS=Dips SAUS=Sausage CATFD=Cat%Food DOGFD=Dog%Food SUP=Super PREM=Premium PKG=Packaged
PCKGD=Packaged GRND=Ground CND=Canned SYRP=Syrup LOZNG=Lozenge DRP=Drop XPCTRNT=Expectorant MLK=Milk
PWDRS=Powders PWDR=Powder MLT=Multi PK=Pack HYGN=Hygiene FEM=Feminine REFRIG=Refrigerated
PLSTC=Plastic VEG=Vegetable TORT=Tortilla HANDKE=Handkerchiefs SANDWIC=Sandwiches SUPPLEMEN=Supplement
DRSNG=Dressing SNDWCH=Sandwich SPRD=Spread SALD=Salad BN=Beans BKD=Baked SPLY=Supply BRKFST=Breakfast
WHLSM=Wholesome MX=Mix MXS=Mixes SHERBTS=Sherbets FRZRS=Freezers PKT=Packet RTS=Ready-to-Serve
PAK=Pack EXACT= WT= CAN=Can CHOCOCLATE=Chocolate SPECILATY=Specialty MISC=Miscellaneous
WTR=Water BA=Bags CONTAINR=Containers DAN=Danish MARIN=Marinades
GM=General%Merchandise SNKS=Snacks CKYS=Cookies CRKR=Crackers CNDY=Candy CLEANG=Cleaning TISS=Tissue
INCL= INCLU= EXCP= EXCE= EX= EXC= ALL= ET= CNTRL=Central SUP.=Supplies SUPP=Supplies
BEERALEMALT=Beer,%Ale%&%Malt SAUCESSALSAPICANTEE=Sauces,%Salsa%&%Picante WRA=Wraps BR=Bread
HMSTYLE=Homestyle HOMESTYLE=Homestyle BULK=Bulk CTLRYTBLCLTHSTTHPKSST=Cutlery%&%Tablecloths
TV=TV IQF=IQF BBQ=BBQ IWS=Wrapped HBC=Health%&%Beauty TOPPERS=Toppers PRODS=Products W=with
COFF=Coffee BEV=Beverage BEVERAG=Beverage QSR=Quick-Service SECT=Sections SUBS=Substitutes
"""
WORDS = {short: long.replace("%", " ") for short, _, long in (entry.partition("=") for entry in _WORDS.split())}
"""Shelf-label word -> what it stands for; empty: says nothing to a shopper."""

_BARE = """
ANGUS|BLENDS|CHOICE BEEF|DRESSINGS|ECONOMY|ECONOMY - MEAT|ENHANCED|ENTREES|FRESH|GARDEN PLUS|JUICE|LEAN|VALUE
LINKS - RAW|MAINSTREAM|MISCELLANEOUS|NATURAL|PATTIES|POULTRY|PREMIUM|PREMIUM - MEAT|PREMIUM PINTS|PRIMAL|DECOR
REGULAR GARDEN|SELECT BEEF|SMOKED/COOKED|STICKS/ENROBED|SUPER PREMIUM|SUPER PREMIUM PINTS|TRADITIONAL|BULK
BETTER FOR YOU|BITS & MORSELS|ALL OTHER|WHOLE|SPECIALTY|REGULAR|VARIETY|SNACKS/APPETIZERS|PARTY EVERYDAY
"""
BARE = frozenset(name for line in _BARE.split("\n") for name in line.split("|") if name)
"""Product types that mean nothing without their category."""


_PHRASES = """
FLUID MILK WHITE ONLY=Milk|YOGURT NOT MULTI-PACKS=Yogurt|MAINSTREAM WHITE BREAD=White Bread
MAINSTREAM WHEAT/MULTIGRAIN BR=Wheat & Multigrain Bread|DAIRY CASE 100% PURE JUICE - O=Orange Juice
SOFT DRINKS 12/18&15PK CAN CAR=Soft Drink Cans, 12-18 Pack|SFT DRNK 2 LITER BTL CARB INCL=Soft Drink Bottle
SOFT DRINKS 20PK&24PK CAN CARB=Soft Drink Cans, 20-24 Pack|SFT DRNK SNGL SRV BTL CARB (EX=Soft Drink, Single
SOFT DRINKS 6PK/4PK CAN CARB (=Soft Drink Cans, 4-6 Pack|SFT DRNK MLT-PK BTL CARB (EXCP=Soft Drink Multipack
RTS SOUP: CHUNKY/HOMESTYLE ET=Ready-to-Serve Soup|SS ECONOMY ENTREES/DINNERS ALL=Frozen Dinner, Economy
FRZN SS PREMIUM ENTREES/DNRS/N=Frozen Dinner, Premium|FRZN SS PREMIUM ENTREES/DNRS/T=Frozen Dinner, Classic
IWS SINGLE CHEESE=Cheese Singles|FRZN BAGGED VEGETABLES - PLAIN=Frozen Vegetables|BEERALEMALT LIQUORS=Beer & Ale
DRUG GM=Drugstore & General Merchandise
"""
PHRASES = {
    label: text for label, _, text in (entry.partition("=") for entry in _PHRASES.strip().replace("\n", "|").split("|"))
}
"""The commonest labels that words alone don't make readable."""

SMALL = frozenset(("And", "Or", "Of", "The", "On", "In", "For", "By", "with"))
CASE_PACK = {"lb": 10.0, "ct": 20.0}
"""A larger size of fruit or vegetables is the crate that the shop gets, not what a shopper buys."""


def readable(label: str) -> str:
    """A shelf label in words and title case: `SFT DRNK 2 LITER BTL CARB INCL` -> `Soft Drink 2 Liter Bottle
    Carbonated`. What stands in brackets goes, and so does a bracket that the label's 30 characters cut off."""
    if label in PHRASES:
        return PHRASES[label]
    text = re.sub(r"\([^)]*(\)|$)", " ", label.upper())
    text = re.sub(r"[ /-]+[A-Z]$", "", text.strip())
    text = re.sub(r" *: *|(?<=[A-Z]) *- +| +-(?=[A-Z])", ", ", text)
    text = re.sub(r"(?<=[A-Z])&(?=[A-Z])", " & ", text)
    text = re.sub(r"(?<=[A-Z0-9%])/(?=[A-Z])", " / ", text)
    words = " ".join(re.sub(r"[A-Z][A-Z'.]*|\d+[A-Z]+", _word, part) for part in text.split()).split()
    joined = " ".join(w.lower() if w in SMALL and i else w for i, w in enumerate(words))
    joined = re.sub(r"( ?/ ?)+", "/", joined)
    joined = re.sub(r"\s*,[\s,/]*", ", ", joined)
    return joined.strip(" ,/&-")


def _word(match: re.Match[str]) -> str:
    word = match[0]
    return WORDS.get(word, WORDS.get(word.strip("."), word.capitalize()))


def size_text(size: str, department: str | None = None) -> str:
    """`16 OZ` -> `16 oz`, `.5 OZ` -> `0.5 oz`, `2 L` -> `2 L`; empty for what is no size of one piece."""
    text = re.sub(r"\([^)]*(\)|$)|^[A-Z]\s+(?=\d)", "", size.upper())
    text = re.sub(r"(?<!\d)\.(?=\d)", "0.", " ".join(text.lower().split()))
    if not text or re.search(r"\d{4}", text) or not re.match(r"\d", text):
        return ""
    amount = re.match(r"([\d.]+)(?:-[\d.]+)? (lb|ct)$", text)
    if department == "PRODUCE" and amount and float(amount[1]) > CASE_PACK[amount[2]]:
        return ""
    for short, long in (("l", "L"), ("ga", "gal"), ("dz", "dozen")):
        text = re.sub(rf"\b{short}\b", long, text)
    return text


def title(
    *, kind: str | None, category: str | None, department: str | None, size: str | None, brand: str | None
) -> str:
    """`Private · Yogurt, 6 oz`: brand, product type (with its category where it says nothing alone), size."""
    name = readable(kind or category or department or "Product")
    if kind in BARE and category and readable(category):
        group = readable(category)
        name = group if name.casefold() in group.casefold() else f"{group}, {name}"
    if size and (shown := size_text(size, department)):
        name = f"{name}, {shown}"
    return f"{brand.strip()} · {name}" if brand and brand.strip() else name


def distinct(titles: Sequence[str], order: Iterable[int]) -> list[str]:
    """The titles, with `no. 2`, `no. 3` ... at those that came before in `order` (positions)."""
    out = list(titles)
    seen: dict[str, int] = {}
    for position in order:
        text = titles[position]
        number = seen[text] = seen.get(text, 0) + 1
        if number > 1:
            out[position] = f"{text}, no. {number}"
    return out
