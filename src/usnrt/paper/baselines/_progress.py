"""Progress of models without a tree."""

from usnrt.utils.progress import Progress


class MemberProgress(Progress):
    """Progress of a model of one or several networks, without a tree."""

    def finish(self) -> None:
        """Replace the bar with a line about the whole fit."""
        if self.verbose:
            self._line(f"fitted in {self.seconds:.1f} s")
