"""Which of the trained models is for which place."""

import pytest

from lc.core.learning.fields import MalformedJob
from lc.core.learning.job import Model, fitting, models_in

CKPT = Model("ckpt", "/out/1/model.ckpt")
OM_310 = Model("om", "/out/1/310.om", ("310",))
OM_710 = Model("om", "/out/1/710.om", ("710",))


def test_a_place_takes_the_first_model_of_its_format() -> None:
    assert fitting((CKPT, OM_310, OM_710), Model("om", "/m/prod.om")) == OM_310
    assert fitting((OM_310, CKPT), Model("ckpt", "/m/prod.ckpt")) == CKPT


def test_a_place_with_devices_takes_the_model_for_one_of_them() -> None:
    assert fitting((OM_310, OM_710), Model("om", "/m/p.om", ("710", "900"))) == OM_710
    assert fitting((OM_310,), Model("om", "/m/p.om", ("710",))) is None


def test_a_model_for_no_device_in_particular_is_for_all() -> None:
    any_device = Model("om", "/out/1/any.om")
    assert fitting((any_device,), Model("om", "/m/p.om", ("710",))) == any_device


def test_nothing_fits_where_nothing_was_trained() -> None:
    """Sedna's LC takes the first of no models, and ends."""
    assert fitting(models_in(()), CKPT) is None
    assert models_in(({"format": "pb"}, "what", {"format": "pb", "url": ""})) == ()


def test_a_model_of_the_api_has_its_secret_and_devices() -> None:
    spec = {"url": "s3://b/m.om", "format": "om", "device_soc_versions": ["310"]}
    found = Model.of_resource({"spec": {**spec, "credentialName": "keys"}})
    assert found == Model("om", "s3://b/m.om", ("310",), "keys")
    assert found.as_input() == {
        "format": "om",
        "url": "s3://b/m.om",
        "device_soc_versions": ["310"],
    }


def test_a_model_without_an_address_is_malformed() -> None:
    with pytest.raises(MalformedJob):
        Model.of_resource({"spec": {"format": "pb"}})
