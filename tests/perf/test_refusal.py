from perf.refusal import measure_refusals


def test_refusals_are_measured_against_a_bare_answer() -> None:
    measured = measure_refusals(requests=500)
    figure = measured.figures()["refusal_over_bare_asgi"]
    assert figure.ratio == measured.ratio > 0
    assert (figure.value, figure.against) == (measured.refused, measured.bare)
    assert "refused at the limit" in measured.text()
