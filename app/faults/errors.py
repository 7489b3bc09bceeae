"""Why a scenario says nothing about the service.

NotShown
    CantPlay    the given configuration or release lacks what the scenario breaks
    NotServing  the service didn't start, or ended
    TooLong     the scenario didn't end
    Discarded   the run can't be judged; worth another try
        Late        the generator itself was late, so the run's latencies are its own
        Unsteady    the service wasn't well before the fault: the machine is busy with something else, or too slow
"""


class NotShown(Exception):
    """Nothing was shown, either way; str() says why."""


class CantPlay(NotShown):
    """The given configuration or release lacks what the scenario breaks."""


class NotServing(NotShown):
    """The service didn't start, or ended; str() has the end of what it said."""


class TooLong(NotShown):
    """The scenario didn't end in a time that is ample."""


class Discarded(NotShown):
    """The run can't be judged; worth another try."""


class Late(Discarded):
    """The generator itself was late; str() says where."""


class Unsteady(Discarded):
    """The service wasn't well before the fault; str() has the figures."""
