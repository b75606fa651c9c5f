/** Screens are loaded when they are first opened; what fails in one does not take the navigation with it. */
import { Component, type ComponentType, lazy, type ReactNode } from 'react';
import { loadLaterTexts, t } from '#dashboard/texts/text.ts';
import { Failure } from './feedback.tsx';

const key = 'signpost-reloaded';
/** Within this time after a reload, a chunk that is still missing is a failure and no upgrade. */
const upgradeMs = 60_000;

/** A chunk that is missing belongs to an older release: the page loads itself again, once. */
export function screen<Props extends object>(load: () => Promise<{ default: ComponentType<Props> }>) {
  return lazy(async () => {
    try {
      const [loaded] = await Promise.all([load(), loadLaterTexts()]);
      return loaded;
    } catch (error) {
      if (Date.now() - Number(sessionStorage.getItem(key) ?? 0) < upgradeMs) throw error;
      sessionStorage.setItem(key, String(Date.now()));
      location.reload();
      return await new Promise<never>(() => undefined);
    }
  });
}

export class ScreenBoundary extends Component<{ readonly children: ReactNode }, { readonly error: unknown }> {
  override state = { error: null };

  static getDerivedStateFromError(error: unknown) {
    return { error };
  }

  override render() {
    if (this.state.error === null) return this.props.children;
    return (
      <div className="stack">
        <Failure error={this.state.error} />
        <p>
          <button type="button" onClick={() => location.reload()}>
            {t('reload')}
          </button>
        </p>
      </div>
    );
  }
}
